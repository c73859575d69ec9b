//! Who can write a state file. What it contains is done as root, so nobody else may.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use nix::unistd::geteuid;

use crate::error::Error;

/// The bits of a mode that let the group and others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Checks that only root, or the user of this process, can create files in a directory. A directory that does not exist is
/// not an error.
///
/// # Errors
/// [`Error::NotDirectory`], also for a symbolic link to one; [`Error::Foreign`]; [`Error::Io`].
pub fn require_own_directory(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => require_own(path, &meta),
        Ok(_) => Err(Error::NotDirectory { path: path.to_owned() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Io { operation: "stat", path: path.to_owned(), source }),
    }
}

/// Checks that only root, or the user of this process, can write a file or directory.
pub(crate) fn require_own(path: &Path, meta: &Metadata) -> Result<(), Error> {
    let is_own = meta.uid() == 0 || meta.uid() == geteuid().as_raw();
    if is_own && meta.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(Error::Foreign { path: path.to_owned(), uid: meta.uid(), mode: meta.mode() & 0o7777 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;
    use crate::{open, read};

    #[test]
    fn a_file_or_directory_that_another_user_can_write_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (file, dir) = (root.path().join("file"), root.path().join("dir"));
        fs::write(&file, "content").unwrap();
        fs::create_dir(&dir).unwrap();
        for (uid, mode, is_own) in [
            (0, 0o700, true),
            (0, 0o755, true),
            (0, 0o775, false),
            (0, 0o757, false),
            (0, 0o1777, false),
            (65534, 0o700, false),
            (65534, 0o755, false),
        ] {
            for path in [&file, &dir] {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                chown(path, Some(uid), None).unwrap();
            }
            let refused = |error: Option<Error>| match error {
                None => false,
                Some(Error::Foreign { uid: owner, mode: is, .. }) if (owner, is) == (uid, mode) => true,
                other => panic!("{uid} {mode:o}: {other:?}"),
            };
            assert_eq!(refused(require_own_directory(&dir).err()), !is_own, "directory {uid} {mode:o}");
            assert_eq!(refused(read(&file).err()), !is_own, "read {uid} {mode:o}");
            assert_eq!(refused(open(&file).err()), !is_own, "open {uid} {mode:o}");
        }
    }

    #[test]
    fn a_link_to_a_directory_is_refused_and_a_missing_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("link");
        symlink(root.path(), &link).unwrap();
        assert!(matches!(require_own_directory(&link), Err(Error::NotDirectory { .. })));
        require_own_directory(&root.path().join("missing")).unwrap();
    }
}
