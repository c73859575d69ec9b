//! The root, and the four ways to read below it.

use std::{
    fs::{self, File},
    io::{self, Read},
    mem::MaybeUninit,
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::{
    fs::{Mode, OFlags, RawDir},
    io::Errno,
};

use crate::Error;

/// A sysfs tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The machine's own, `/sys`.
    pub fn system() -> Self {
        Self::at("/sys")
    }

    /// The tree below `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { root: path.into() }
    }

    /// Where the tree begins.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Whether a file or directory is there. That it cannot be seen does not mean that it is not.
pub(crate) fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// The text of a file without the line's end; `None` if there is no such file.
///
/// The kernel hands out an attribute whole, by one read call, and none is longer than a page. A GID table has 255
/// of them: half the system calls of `fs::read_to_string` are worth a few lines.
pub(crate) fn text(path: &Path) -> Result<Option<String>, Error> {
    let mut page = [0; 4096];
    match File::open(path).and_then(|mut file| file.read(&mut page)) {
        Ok(length) => Ok(Some(String::from_utf8_lossy(&page[..length]).trim_end().to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// The value a file holds; `None` if there is no such file.
pub(crate) fn value<T: FromStr>(path: &Path, expected: &'static str) -> Result<Option<T>, Error> {
    text(path)?.map(|text| parsed(path, text, expected)).transpose()
}

/// The last part of a symbolic link's target; `None` if there is no such link.
pub(crate) fn link(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_link(path) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// The names in a directory, sorted; empty if there is no such directory.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, Error> {
    match list(path) {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(errno) => Err(Error::Io { path: path.to_owned(), source: errno.into() }),
    }
}

/// With room on the stack: musl maps and unmaps pages for each `opendir(3)`.
fn list(path: &Path) -> Result<Vec<String>, Errno> {
    let dir = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut room = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(dir, &mut room);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// The text that was found at `path` as a value.
pub(crate) fn parsed<T: FromStr>(path: &Path, text: String, expected: &'static str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::Malformed { path: path.to_owned(), text, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_none_and_what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sriov_numvfs");
        assert_eq!(value::<u32>(&file, "a number").unwrap(), None);
        fs::write(&file, "2\n").unwrap();
        assert_eq!(value::<u32>(&file, "a number").unwrap(), Some(2));
        fs::write(&file, "two\n").unwrap();
        let error = value::<u32>(&file, "a number").unwrap_err().to_string();
        assert!(error.ends_with("sriov_numvfs holds \"two\": expected a number"), "{error}");
        assert!(matches!(link(&file), Err(Error::Io { .. })), "a file is no link");
        assert!(matches!(names(&file), Err(Error::Io { .. })), "a file is no directory");
    }

    #[test]
    fn a_directory_of_many_names_is_listed_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(names(&dir.path().join("none")).unwrap(), [""; 0]);
        assert_eq!(names(dir.path()).unwrap(), [""; 0]);
        let expected: Vec<_> = (0..500).map(|number| format!("a-name-of-some-length-{number:03}")).collect();
        for name in expected.iter().rev() {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(names(dir.path()).unwrap(), expected);
    }
}
