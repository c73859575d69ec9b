//! Reading and removing files of state.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::libc;

use crate::{Error, create::temporary};

/// No file of ours is longer; one that is was not written by us.
const LIMIT: u64 = 1 << 20;

/// A file of state with what it holds.
#[derive(Debug)]
pub struct Content {
    /// The file, open for reading and appending.
    pub file: File,
    /// What it held when it was read.
    pub bytes: Vec<u8>,
}

/// Opens a file of state for reading and appending; `None` if it is not there. A symbolic link is refused.
///
/// # Errors
/// [`Error::Io`].
pub fn open(path: &Path) -> Result<Option<File>, Error> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    match OpenOptions::new().read(true).append(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { operation: "open", path: path.to_owned(), source }),
    }
}

/// Reads a file of state; `None` if it is not there. A symbolic link is refused.
///
/// # Errors
/// [`Error::Io`].
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::Io { operation: "read", path: path.to_owned(), source };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Removes a file of state, with what a killed process may have left of a new one. It may be gone already.
///
/// # Errors
/// [`Error::Io`].
pub fn remove(path: &Path) -> Result<(), Error> {
    let _ = fs::remove_file(temporary(path));
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Io { operation: "remove", path: path.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

/// Moves a file that cannot be understood out of the way and returns its new name: `<name>.bad`.
///
/// It is never deleted: it may be the only trace of what happened.
///
/// # Errors
/// [`Error::Io`].
pub fn set_aside(path: &Path) -> Result<PathBuf, Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".bad");
    let aside = path.with_file_name(name);
    fs::rename(path, &aside).map_err(|source| Error::Io {
        operation: "set aside",
        path: path.to_owned(),
        source,
    })?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_symbolic_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/etc/hostname", &link).unwrap();
        assert!(read(&link).is_err());
        assert!(open(&link).is_err());
    }

    #[test]
    fn what_is_not_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&dir.path().join("a")).unwrap().is_none());
        remove(&dir.path().join("a")).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_of_a_new_file_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(temporary(&path), b"half").unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_set_aside_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, b"garbage").unwrap();
        let aside = set_aside(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(aside).unwrap(), b"garbage");
    }
}
