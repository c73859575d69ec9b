//! Reading and removing files of state.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::libc;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{Error, create::temporary};

/// No file of ours is longer; one that is was not written by us.
const MAX_STATE_FILE_BYTES: u64 = 1 << 20;

/// What a file is called besides once it is set aside.
const QUARANTINE_SUFFIX: &str = ".bad";

/// A file of state with what it holds.
#[derive(Debug)]
pub struct StateFileContent {
    /// The file, open for reading and appending.
    pub file: File,
    /// What it held when it was read.
    pub bytes: Vec<u8>,
}

/// Opens a file of state for reading and appending; `None` if it is not there.
///
/// # Errors
/// [`Error::Strange`] if something else is in its place; [`Error::Io`].
pub fn open(path: &Path) -> Result<Option<File>, Error> {
    open_with(OpenOptions::new().read(true).append(true), path, "open")
}

/// Nothing is followed and nothing is waited for: a symbolic link, or a pipe nobody writes to.
fn open_with(options: &mut OpenOptions, path: &Path, operation: &'static str) -> Result<Option<File>, Error> {
    let strange = || Error::Strange { path: path.to_owned() };
    let failed = |source| Error::Io { operation, path: path.to_owned(), source };
    match options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path) {
        Ok(file) if file.metadata().map_err(failed)?.is_file() => Ok(Some(file)),
        Ok(_) => Err(strange()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        // A link, a directory, a socket.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)) => {
            Err(strange())
        }
        Err(source) => Err(failed(source)),
    }
}

/// Reads a file of state; `None` if it is not there.
///
/// # Errors
/// [`Error::Strange`] if something else is in its place; [`Error::Io`].
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::Io { operation: "read", path: path.to_owned(), source };
    let Some(file) = open_with(OpenOptions::new().read(true), path, "read")? else { return Ok(None) };
    whole(&file).map(Some).map_err(failed)
}

/// What an open file of state holds, from where it stands on.
///
/// # Errors
/// The system call's.
pub fn whole(file: &File) -> io::Result<Vec<u8>> {
    // Room for nearly all of ours: the library would begin with 32 bytes, or ask how many there are.
    let mut bytes = Vec::with_capacity(4096);
    file.take(MAX_STATE_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
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

/// Moves a file that cannot be understood out of the way and returns its new name: `<name>.bad`, or
/// `<name>.bad.1` and so on where an earlier one has that name.
///
/// It is never deleted, and none ever takes the place of another: each may be the only trace of what happened.
/// Who calls this holds the file's lock, or whatever else keeps a new file from taking its name meanwhile.
///
/// # Errors
/// [`Error::Io`].
pub fn quarantine(path: &Path) -> Result<PathBuf, Error> {
    let mut number = 0;
    loop {
        let aside = quarantine_path(path, number);
        match renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(rustix::io::Errno::EXIST) => number += 1,
            Err(errno) => {
                let (operation, path, source) = ("set aside", path.to_owned(), errno.into());
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

/// Whether a file of that name was set aside and is still there.
pub fn is_quarantined(path: &Path) -> bool {
    quarantine_path(path, 0).symlink_metadata().is_ok()
}

/// The former name of a file that was set aside; `None` if this name is none that [`quarantine`] gives.
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
    fn what_is_no_regular_file_is_refused_and_can_be_set_aside() {
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
            assert!(matches!(read(&path), Err(Error::Strange { .. })), "{number}");
            assert!(matches!(open(&path), Err(Error::Strange { .. })), "{number}");
            quarantine(&path).unwrap();
            assert!(path.symlink_metadata().is_err(), "{number}");
            assert_eq!(fs::read(&precious).unwrap(), b"precious");
        }
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
    fn a_link_where_a_file_is_set_aside_to_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("a"), dir.path().join("precious"));
        fs::write(&precious, b"precious").unwrap();
        fs::write(&path, b"garbage").unwrap();
        let aside = quarantine(&path).unwrap();
        fs::remove_file(&aside).unwrap();
        symlink(&precious, &aside).unwrap();
        fs::write(&path, b"garbage").unwrap();
        assert_eq!(fs::read(quarantine(&path).unwrap()).unwrap(), b"garbage");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_file_set_aside_keeps_its_content_and_displaces_no_earlier_one() {
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
    fn a_gap_among_those_set_aside_is_filled() {
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
    fn what_is_not_there_cannot_be_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let error = quarantine(&dir.path().join("a")).unwrap_err().to_string();
        assert!(error.starts_with("set aside "), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_that_nothing_was_given_are_none() {
        for name in ["a", ".bad", "a.bad.", "a.bad.x", "a.bad.1.2", "a.badly"] {
            assert_eq!(original_name(name), None, "{name}");
        }
        assert_eq!(original_name("a.bad.bad.7"), Some("a.bad"));
    }
}
