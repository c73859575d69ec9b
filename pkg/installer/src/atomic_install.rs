//! Putting a file under its name so that it is whole at every moment, also after a power cut.
//!
//! It is made under another name beside it and then renamed. A file that is being executed can be replaced so: the
//! processes keep the old one.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};

use nix::libc;

use crate::{Error, selinux_label};

/// Ends the names of files that are not whole yet. No runtime takes such a name for a plugin or a configuration.
const TEMPORARY_SUFFIX: &str = ".silkrail-new";

/// What a file is beside its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileAttributes {
    /// Permissions.
    pub(crate) mode: u32,
    /// Owner and group, if not who runs this.
    pub(crate) owner: Option<(u32, u32)>,
}

/// Where a file is made whole: fixed, so that what a killed process left is found. Who calls this holds a lock.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(TEMPORARY_SUFFIX);
    path.with_file_name(name)
}

/// Writes a file that [`publish`] then names `path`, and returns its name until then.
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
            file.set_permissions(Permissions::from_mode(attributes.mode))?; // whatever the umask
            file.sync_all()
        });
    written.map_err(Error::io("write", &temporary))?;
    Ok(temporary)
}

/// Who is the owner already needs no privilege.
fn own(file: &File, uid: u32, gid: u32) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is = file.metadata()?;
    if (is.uid(), is.gid()) == (uid, gid) { Ok(()) } else { fchown(file, Some(uid), Some(gid)) }
}

/// The same file under one more name, which [`publish`] makes `path`. Where a file can have one name only, a copy.
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

/// A symbolic link that [`publish`] then names `path`.
pub(crate) fn point(path: &Path, target: &Path) -> Result<(), Error> {
    remove_temporary(path)?;
    symlink(target, temporary(path)).map_err(Error::io("make symbolic link", path))
}

/// Gives what was made its name, in place of whatever has it.
pub(crate) fn publish(path: &Path) -> Result<(), Error> {
    fs::rename(temporary(path), path).map_err(Error::io("rename to", path))
}

/// Removes what was made and not published.
pub(crate) fn remove_temporary(path: &Path) -> Result<(), Error> {
    remove(&temporary(path))
}

/// Removes what killed processes left in a directory.
pub(crate) fn discard_all(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b".") && name.ends_with(TEMPORARY_SUFFIX.as_bytes()) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file, which may be gone already.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Keeps renamed and removed names over a power cut.
pub(crate) fn sync(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const PLAIN: FileAttributes = FileAttributes { mode: 0o755, owner: None };

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
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
    fn what_a_killed_process_left_goes_and_nothing_else() {
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
    fn a_link_in_the_way_is_not_followed() {
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
