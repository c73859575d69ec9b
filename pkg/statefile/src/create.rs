//! Creation and replacement of state files.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags},
    libc,
    unistd::linkat,
};

use crate::error::Error;

/// Creates `path` with `content`, and returns the file open for reading and appending.
///
/// `prepare` is called before the file has its name: a lock that it takes is held when other processes can open it.
///
/// # Errors
/// [`Error::Exists`] if the path exists; [`Error::Io`].
pub fn create(
    path: &Path,
    mode: u32,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> Result<File, Error> {
    let io = |operation| move |source| Error::Io { operation, path: path.to_owned(), source };
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .mode(mode)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(dir)
        .map_err(io("create a file for"))?;
    file.write_all(content).map_err(io("write"))?;
    prepare(&file).map_err(io("lock"))?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW) {
        Ok(()) => Ok(file),
        Err(Errno::EEXIST) => Err(Error::Exists { path: path.to_owned() }),
        Err(errno) => Err(io("link")(errno.into())),
    }
}

/// Creates or replaces `path` with `content`. The caller ensures that only one process does so at a time.
///
/// # Errors
/// [`Error::Io`]; the former content is then unchanged.
pub fn replace(path: &Path, mode: u32, content: &[u8]) -> Result<(), Error> {
    replace_prepared(path, mode, content, |_| Ok(()))
}

/// As [`replace`], with a mode that the umask does not change.
///
/// # Errors
/// As there.
pub fn replace_with_mode(path: &Path, mode: u32, content: &[u8]) -> Result<(), Error> {
    replace_prepared(path, mode, content, |file| file.set_permissions(Permissions::from_mode(mode)))
}

fn replace_prepared(
    path: &Path,
    mode: u32,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), Error> {
    let io = |operation| move |source| Error::Io { operation, path: path.to_owned(), source };
    let temporary = temporary(path);
    let create = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        options.open(&temporary)
    };
    let created = match create() {
        // A process that was killed here has left it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let _ = fs::remove_file(&temporary);
            create()
        }
        created => created,
    };
    let write = |mut file: File| prepare(&file).and_then(|()| file.write_all(content));
    let written = created.and_then(write).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        io("write")(source)
    })
}

/// Returns the temporary name under which new content is written.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// Whether a file name is one under which new content is written.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".new")
}

/// Creates a directory and its missing parents. Usually it exists, which one system call shows. If the path is not a
/// directory, later operations on files in it fail.
///
/// # Errors
/// [`Error::Io`].
pub fn make_dir(path: &Path, mode: u32) -> Result<(), Error> {
    let made = match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(mode).create(path)
        }
        made => made,
    };
    made.map_err(|source| Error::Io { operation: "create directory", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_created_once_with_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        create(&path, 0o600, b"one", |_| Ok(())).unwrap();
        assert!(matches!(create(&path, 0o600, b"two", |_| Ok(())), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_atomically_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("a"), dir.path().join("target"));
        fs::write(&target, b"precious").unwrap();
        for link in [&path, &temporary(&path)] {
            std::os::unix::fs::symlink(&target, link).unwrap();
        }
        replace(&path, 0o644, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        // The umask of a test is not 0.
        replace_with_mode(&path, 0o666, b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    }

    #[test]
    fn the_temporary_name_is_recognised() {
        assert!(
            is_temporary(".a.new")
                && is_temporary(temporary(Path::new("/b/a")).file_name().unwrap().to_str().unwrap())
        );
        for name in ["a.new", ".a", "a", ".a.news"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn a_directory_is_made_with_its_parents_and_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        for _ in 0..2 {
            make_dir(&path, 0o700).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(make_dir(Path::new("/proc/nowhere"), 0o700).is_err());
    }

    #[test]
    fn what_cannot_be_replaced_or_locked_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let failed = create(&path, 0o600, b"", |_| Err(io::ErrorKind::WouldBlock.into()));
        assert!(failed.is_err());
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, 0o600, b"new").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let held = File::create(dir.path().join("lock")).unwrap();
        held.lock().unwrap();
        let other = File::open(dir.path().join("lock")).unwrap();
        let busy = crate::lock(&other, &path, std::time::Instant::now());
        assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
        drop(held);
        crate::lock(&other, &path, std::time::Instant::now()).unwrap();
    }

    #[test]
    fn a_failure_names_the_file() {
        let error = replace(Path::new("/proc/nowhere/x"), 0o600, b"").unwrap_err();
        assert!(error.to_string().starts_with("cannot write /proc/nowhere/x: "), "{error}");
    }
}
