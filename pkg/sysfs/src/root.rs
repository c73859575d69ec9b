//! The root of a sysfs tree, and functions that read files below it.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    str::FromStr,
};

use rustix::{fs::CWD, io::Errno};

use crate::{Error, directory};

/// A sysfs tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The tree of this machine, `/sys`.
    pub fn system() -> Self {
        Self::at("/sys")
    }

    /// The tree below `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { root: path.into() }
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Returns whether a file or directory exists. A directory on its path that cannot be searched is an error.
pub(crate) fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// Reads a file without trailing white space; `None` if it does not exist.
///
/// An attribute is at most one page long, and one read(2) returns all of it. This needs half of the system calls of
/// `fs::read_to_string`, which matters for a GID table with 255 files.
pub(crate) fn text(path: &Path) -> Result<Option<String>, Error> {
    let mut page = [0; 4096];
    let read = |mut file: File| match file.read(&mut page) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => file.read(&mut page),
        read => read,
    };
    match File::open(path).and_then(read) {
        Ok(length) => Ok(Some(directory::trimmed(&page[..length]))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// Reads and parses a file; `None` if it does not exist.
pub(crate) fn value<T: FromStr>(path: &Path, expected: &'static str) -> Result<Option<T>, Error> {
    text(path)?.map(|text| parsed(path, text, expected)).transpose()
}

/// Returns the last component of the target of a symbolic link; `None` if it does not exist.
pub(crate) fn link(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_link(path) {
        Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// Returns the names in a directory, sorted; empty if it does not exist.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, Error> {
    match directory::list(CWD, path) {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(errno) => Err(Error::Io { path: path.to_owned(), source: errno.into() }),
    }
}

/// Parses the contents of the file `path`.
pub(crate) fn parsed<T: FromStr>(path: &Path, text: String, expected: &'static str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::Malformed { path: path.to_owned(), text, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_none_and_an_invalid_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sriov_numvfs");
        assert_eq!(value::<u32>(&file, "a number").unwrap(), None);
        fs::write(&file, "2\n").unwrap();
        assert_eq!(value::<u32>(&file, "a number").unwrap(), Some(2));
        fs::write(&file, "two\n").unwrap();
        let error = value::<u32>(&file, "a number").unwrap_err().to_string();
        assert!(error.ends_with("sriov_numvfs: expected a number, got \"two\""), "{error}");
        assert!(matches!(link(&file), Err(Error::Io { .. })), "a file is not a symbolic link");
        assert!(matches!(names(&file), Err(Error::Io { .. })), "a file is not a directory");
    }

    #[test]
    fn a_directory_with_many_entries_is_listed_completely() {
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
