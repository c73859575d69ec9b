//! Fault-tolerant reads below a root directory: a failed read is recorded, and the examination continues.

use std::{
    cell::RefCell,
    fs::{self, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};

use nix::libc;
use serde::Serialize;

use crate::Known;

/// The number of bytes that are read of a file, unless the caller passes another limit.
const MAX_READ_BYTES: u64 = 4 << 20;

/// Something that could not be examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Unexamined {
    /// The object: a path, or a description such as `RDMA devices`.
    pub(crate) what: String,
    /// The error or other reason.
    pub(crate) why: String,
}

/// A root directory, and what could not be examined below it.
#[derive(Debug)]
pub(crate) struct HostRoot {
    root: PathBuf,
    unexamined: RefCell<Vec<Unexamined>>,
}

impl HostRoot {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), unexamined: RefCell::default() }
    }

    /// Returns the path below the root. An absolute `path` is interpreted relative to the root.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the path without the root directory: the path on the node itself.
    pub(crate) fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(below) => format!("/{}", below.display()),
            Err(_) => path.display().to_string(),
        }
    }

    pub(crate) fn note_unexamined(&self, what: impl ToString, why: impl ToString) {
        let (what, why) = (what.to_string(), why.to_string());
        self.unexamined.borrow_mut().push(Unexamined { what, why });
    }

    pub(crate) fn into_unexamined(self) -> Vec<Unexamined> {
        self.unexamined.into_inner()
    }

    /// Reads a file as text, without trailing white space.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Known<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> Known<Vec<u8>> {
        let path = self.path(path);
        self.read_or_note(&path, read(&path, MAX_READ_BYTES))
    }

    pub(crate) fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Known<T> {
        match self.text(&path) {
            Known::Value(text) => match text.parse() {
                Ok(value) => Known::Value(value),
                Err(_) => {
                    let path = self.path(path);
                    self.note_unexamined(
                        self.shown(&path),
                        format!("contains {text:?}, which is not a valid value"),
                    );
                    Known::Unknown
                }
            },
            Known::Absent => Known::Absent,
            Known::Unknown => Known::Unknown,
        }
    }

    /// Returns the names in a directory, sorted.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Known<Vec<String>> {
        let path = self.path(path);
        let list = fs::read_dir(&path).and_then(|entries| {
            let name =
                |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
            let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        });
        self.read_or_note(&path, list)
    }

    /// Returns the last component of the target of a symbolic link.
    pub(crate) fn link(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    pub(crate) fn is_there(&self, path: impl AsRef<Path>) -> bool {
        !self.metadata(path).is_absent()
    }

    pub(crate) fn metadata(&self, path: impl AsRef<Path>) -> Known<Metadata> {
        let path = self.path(path);
        self.read_or_note(&path, fs::metadata(&path))
    }

    fn read_or_note<T>(&self, path: &Path, result: io::Result<T>) -> Known<T> {
        match result {
            Ok(value) => Known::Value(value),
            Err(error) if is_absent(&error) => Known::Absent,
            Err(error) => {
                self.note_unexamined(self.shown(path), error);
                Known::Unknown
            }
        }
    }
}

/// Returns whether the file does not exist, or is an attribute that currently has no value: the speed of a link that is
/// down, an unused GID.
fn is_absent(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || matches!(code, Some(libc::EINVAL | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO))
}

/// Reads at most `limit` bytes of a file. `O_NONBLOCK`: a pipe without a writer must not block.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_unreadable_value_is_unknown_and_listed_but_a_missing_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("number"), "seven\n").unwrap();
        fs::create_dir(root.path().join("directory")).unwrap();
        fs::set_permissions(root.path().join("number"), fs::Permissions::from_mode(0o644)).unwrap();
        let tree = HostRoot::at(root.path());
        assert_eq!(tree.text("/missing"), Known::Absent);
        assert_eq!(tree.value::<u32>("number"), Known::Unknown);
        assert_eq!(tree.text("directory"), Known::Unknown);
        let unexamined: Vec<_> = tree.into_unexamined().into_iter().map(|one| one.what).collect();
        assert_eq!(unexamined, ["/number", "/directory"]);
    }
}
