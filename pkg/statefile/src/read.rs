//! Reading, removal and quarantine of state files.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::libc;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{create::temporary, error::Error, owner::require_own};

/// The largest size of a state file, in bytes. A larger one is not read: a part of it would be taken for the whole.
pub const MAX_STATE_FILE_BYTES: u64 = 1 << 20;

/// The suffix of quarantined files.
const QUARANTINE_SUFFIX: &str = ".bad";

/// An open state file and its content.
#[derive(Debug)]
pub struct StateFileContent {
    /// The file, open for reading and appending.
    pub file: File,
    /// The content at the time of reading.
    pub bytes: Vec<u8>,
}

/// Opens a state file for reading and appending; `None` if it does not exist.
///
/// # Errors
/// [`Error::NotRegular`] if it is not a regular file; [`Error::Foreign`]; [`Error::Io`].
pub fn open(path: &Path) -> Result<Option<File>, Error> {
    open_with(OpenOptions::new().read(true).append(true), path, "open")
}

/// Opens a file without following a symbolic link, and without blocking on a pipe.
fn open_with(options: &mut OpenOptions, path: &Path, operation: &'static str) -> Result<Option<File>, Error> {
    let strange = || Error::NotRegular { path: path.to_owned() };
    let failed = |source| Error::Io { operation, path: path.to_owned(), source };
    match options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path) {
        Ok(file) => {
            let meta = file.metadata().map_err(failed)?;
            if !meta.is_file() {
                return Err(strange());
            }
            require_own(path, &meta)?;
            Ok(Some(file))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        // A symbolic link, a directory, a socket.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)) => {
            Err(strange())
        }
        Err(source) => Err(failed(source)),
    }
}

/// Reads a state file; `None` if it does not exist.
///
/// # Errors
/// [`Error::NotRegular`] if it is not a regular file; [`Error::Foreign`]; [`Error::Io`].
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::Io { operation: "read", path: path.to_owned(), source };
    let Some(file) = open_with(OpenOptions::new().read(true), path, "read")? else { return Ok(None) };
    whole(&file).map(Some).map_err(failed)
}

/// Reads an open state file from its current offset to its end.
///
/// # Errors
/// The error of read(2); [`too_long`].
pub fn whole(file: &File) -> io::Result<Vec<u8>> {
    // Sufficient for nearly all state files: the library would begin with 32 bytes, or call fstat.
    let mut bytes = Vec::with_capacity(4096);
    file.take(MAX_STATE_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_STATE_FILE_BYTES { Err(too_long()) } else { Ok(bytes) }
}

/// Returns the error of a file that has more than [`MAX_STATE_FILE_BYTES`], or would have.
pub fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {MAX_STATE_FILE_BYTES} bytes"))
}

/// Removes a state file and its temporary file, if any. It is not an error if they do not exist.
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

/// Quarantines a file that cannot be parsed and returns its new name: `<name>.bad`, or `<name>.bad.1` and so on
/// if earlier ones exist.
///
/// Quarantined files are never deleted or replaced: each may be the only trace of what happened. The caller must hold
/// the file's lock, or otherwise prevent another process from creating a new file with its name.
///
/// # Errors
/// [`Error::Io`].
pub fn quarantine(path: &Path) -> Result<PathBuf, Error> {
    let mut number = 0;
    loop {
        let target = quarantine_path(path, number);
        match renameat_with(CWD, path, CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(target),
            Err(rustix::io::Errno::EXIST) => number += 1,
            Err(errno) => {
                let (operation, path, source) = ("quarantine", path.to_owned(), errno.into());
                return Err(Error::Io { operation, path, source });
            }
        }
    }
}

fn quarantine_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(QUARANTINE_SUFFIX);
    if number > 0 {
        name.push(format!(".{number}"));
    }
    path.with_file_name(name)
}

/// Whether a quarantined file `<name>.bad` of this path exists.
pub fn is_quarantined(path: &Path) -> bool {
    quarantine_path(path, 0).symlink_metadata().is_ok()
}

/// Returns the former name of a quarantined file; `None` if the name is not of the form that [`quarantine`] creates.
pub fn original_name(name: &str) -> Option<&str> {
    let (former, number) = name.rsplit_once(QUARANTINE_SUFFIX)?;
    let numbered = |rest: &str| rest.strip_prefix('.').is_some_and(|n| n.parse::<u32>().is_ok());
    (!former.is_empty() && (number.is_empty() || numbered(number))).then_some(former)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn a_path_that_is_not_a_regular_file_is_refused_and_can_be_quarantined() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let makes: [fn(&Path); 4] = [
            |path| symlink("precious", path).unwrap(),
            |path| fs::create_dir(path).unwrap(),
            |path| mkfifo(path, Mode::S_IRWXU).unwrap(),
            |path| drop(UnixListener::bind(path).unwrap()),
        ];
        for (number, make) in makes.iter().enumerate() {
            let path = dir.path().join(number.to_string());
            make(&path);
            assert!(matches!(read(&path), Err(Error::NotRegular { .. })), "{number}");
            assert!(matches!(open(&path), Err(Error::NotRegular { .. })), "{number}");
            quarantine(&path).unwrap();
            assert!(path.symlink_metadata().is_err(), "{number}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
        }
    }

    #[test]
    fn a_missing_file_is_not_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(&dir.path().join("a")).unwrap().is_none());
        remove(&dir.path().join("a")).unwrap();
    }

    #[test]
    fn the_temporary_file_of_a_killed_process_is_removed_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(temporary(&path), b"half").unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_at_the_name_of_a_quarantined_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("a"), dir.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        fs::write(&path, b"garbage").unwrap();
        let target = quarantine(&path).unwrap();
        fs::remove_file(&target).unwrap();
        symlink(&precious, &target).unwrap();
        fs::write(&path, b"garbage").unwrap();
        assert_eq!(fs::read(quarantine(&path).unwrap()).unwrap(), b"garbage");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_quarantined_file_keeps_its_content_and_replaces_no_earlier_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for (content, name) in [("first", "a.bad"), ("second", "a.bad.1"), ("third", "a.bad.2")] {
            fs::write(&path, content).unwrap();
            assert_eq!(quarantine(&path).unwrap(), dir.path().join(name));
            assert!(!path.exists() && is_quarantined(&path));
        }
        for (content, name) in [("first", "a.bad"), ("second", "a.bad.1"), ("third", "a.bad.2")] {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), content);
            assert_eq!(original_name(name), Some("a"));
        }
    }

    #[test]
    fn a_gap_in_the_numbers_of_quarantined_files_is_filled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(dir.path().join("a.bad.1"), "kept").unwrap();
        for name in ["a.bad", "a.bad.2"] {
            fs::write(&path, "new").unwrap();
            assert_eq!(quarantine(&path).unwrap(), dir.path().join(name));
        }
        assert_eq!(fs::read_to_string(dir.path().join("a.bad.1")).unwrap(), "kept");
    }

    #[test]
    fn a_missing_file_cannot_be_quarantined() {
        let dir = tempfile::tempdir().unwrap();
        let error = quarantine(&dir.path().join("a")).unwrap_err().to_string();
        assert!(error.starts_with("cannot quarantine "), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_names_are_not_names_of_quarantined_files() {
        for name in ["a", ".bad", "a.bad.", "a.bad.x", "a.bad.1.2", "a.badly"] {
            assert_eq!(original_name(name), None, "{name}");
        }
        assert_eq!(original_name("a.bad.bad.7"), Some("a.bad"));
    }
}
