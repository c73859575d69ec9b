//! Atomic replacement of files: a path always refers to a complete file, even after a power failure.
//!
//! A new file is written under a temporary name in the same directory and then renamed. This also works for a file that is
//! being executed: running processes keep the old one.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};

use nix::libc;

use crate::{Error, selinux_label};

/// The suffix of temporary names. Container runtimes ignore such files.
const TEMPORARY_SUFFIX: &str = ".silkrail-new";

/// Mode and owner of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileAttributes {
    /// Permission bits, as for chmod(2).
    pub(crate) mode: u32,
    /// Owner and group; `None` for those of this process.
    pub(crate) owner: Option<(u32, u32)>,
}

/// Returns the temporary name of a file. It is fixed, so that leftovers of a killed process are found; callers hold a lock.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(TEMPORARY_SUFFIX);
    path.with_file_name(name)
}

/// Writes a new file for [`publish`], and returns its temporary name.
pub(crate) fn write(path: &Path, content: &[u8], attributes: FileAttributes) -> Result<PathBuf, Error> {
    let temporary = temporary(path);
    remove_temporary(path)?;
    let label = selinux_label::for_file(path);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(content)?;
            selinux_label::set(&file, label.as_deref());
            if let Some((uid, gid)) = attributes.owner {
                own(&file, uid, gid)?;
            }
            file.set_permissions(Permissions::from_mode(attributes.mode))?; // regardless of the umask
            file.sync_all()
        });
    written.map_err(Error::io("cannot write", &temporary))?;
    Ok(temporary)
}

/// Sets the owner unless it is correct already, since chown(2) needs a privilege.
fn own(file: &File, uid: u32, gid: u32) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is = file.metadata()?;
    if (is.uid(), is.gid()) == (uid, gid) { Ok(()) } else { fchown(file, Some(uid), Some(gid)) }
}

/// Hard-links `file` for [`publish`], or writes a copy if the file system does not support hard links.
pub(crate) fn link(
    file: &Path,
    path: &Path,
    content: &[u8],
    attributes: FileAttributes,
) -> Result<(), Error> {
    remove_temporary(path)?;
    match fs::hard_link(file, temporary(path)) {
        Ok(()) => Ok(()),
        Err(_) => write(path, content, attributes).map(drop),
    }
}

/// Creates a symbolic link for [`publish`].
pub(crate) fn point(path: &Path, target: &Path) -> Result<(), Error> {
    remove_temporary(path)?;
    symlink(target, temporary(path)).map_err(Error::io("cannot create symbolic link", path))
}

/// Renames the temporary file to `path`, replacing an existing file.
pub(crate) fn publish(path: &Path) -> Result<(), Error> {
    fs::rename(temporary(path), path).map_err(Error::io("cannot rename to", path))
}

/// Removes the temporary file of `path`, if any.
pub(crate) fn remove_temporary(path: &Path) -> Result<(), Error> {
    remove(&temporary(path))
}

/// Removes all temporary files in a directory, which killed processes have left.
pub(crate) fn discard_all(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("cannot list", dir))? {
        let path = entry.map_err(Error::io("cannot list", dir))?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b".") && name.ends_with(TEMPORARY_SUFFIX.as_bytes()) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file; it is not an error if it does not exist.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("cannot remove", path)(e)),
        _ => Ok(()),
    }
}

/// Syncs a directory, so that renames and removals survive a power failure.
pub(crate) fn sync(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("cannot sync", dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const PLAIN: FileAttributes = FileAttributes { mode: 0o755, owner: None };

    #[test]
    fn a_file_gets_its_name_only_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("macvlan"), dir.path().join("ipvlan"));
        fs::write(&path, "old").unwrap();
        let made = write(&path, b"new", PLAIN).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        link(&made, &other, b"new", PLAIN).unwrap();
        publish(&path).unwrap();
        publish(&other).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().ino(), fs::metadata(&other).unwrap().ino());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn only_leftovers_of_killed_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = temporary(&dir.path().join("macvlan"));
        fs::write(&left, "half").unwrap();
        fs::write(dir.path().join(".other.new"), "").unwrap();
        fs::write(dir.path().join("silkrail-new"), "").unwrap();
        discard_all(dir.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_existing_symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("macvlan"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        for link in [&path, &temporary(&path)] {
            symlink(&precious, link).unwrap();
        }
        write(&path, b"new", PLAIN).unwrap();
        publish(&path).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(path.symlink_metadata().unwrap().is_file());
    }
}
