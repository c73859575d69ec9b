//! Checks whether root may run a file: only trusted users must be able to change or replace it.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const OF_GROUP: u32 = 0o020;
const OF_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Checks a file and all its parent directories, and returns the path that was checked. It contains no symbolic link, which
/// could be changed in the meantime.
///
/// # Errors
/// The path of the first untrusted component, with its owner or mode.
pub(crate) fn require_trusted(path: &Path) -> Result<PathBuf, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let trusted = TrustedOwners::of_this_process();
    for place in path.ancestors() {
        let meta = fs::symlink_metadata(place).map_err(|error| format!("{}: {error}", place.display()))?;
        trusted.check(&meta).map_err(|why| format!("{} {why}", place.display()))?;
    }
    Ok(path)
}

/// The users whose files root may run: root, the caller, and the owner of this program, since root already runs that.
struct TrustedOwners([u32; 3]);

impl TrustedOwners {
    fn of_this_process() -> Self {
        let own = fs::metadata("/proc/self/exe").map_or(0, |meta| meta.uid());
        Self([0, nix::unistd::geteuid().as_raw(), own])
    }

    fn check(&self, meta: &Metadata) -> Result<(), String> {
        let (owner, group, mode) = (meta.uid(), meta.gid(), meta.mode());
        if !self.0.contains(&owner) {
            return Err(format!("is owned by user {owner}"));
        }
        // In a sticky directory such as /tmp, users cannot replace files of others.
        if meta.is_dir() && mode & STICKY != 0 {
            return Ok(());
        }
        // Many systems give each user a private group with the same number.
        if mode & OF_GROUP != 0 && group != 0 && group != owner {
            return Err(format!("can be changed by group {group} (mode {:04o})", mode & 0o7777));
        }
        if mode & OF_OTHERS != 0 {
            return Err(format!("can be changed by every user (mode {:04o})", mode & 0o7777));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn a_file_that_other_users_can_change_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (sub, file) = (dir.path().join("dist"), dir.path().join("dist/silkrail-cni"));
        fs::create_dir(&sub).unwrap();
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&sub, 0o755);
        mode(&file, 0o755);
        require_trusted(&file).unwrap();
        for (path, bad, good) in
            [(&file, 0o757, 0o755), (&file, 0o1757, 0o755), (&sub, 0o777, 0o755), (&sub, 0o1777, 0o755)]
        {
            mode(path, bad);
            let found = require_trusted(&file);
            mode(path, good);
            assert_eq!(found.is_ok(), bad == 0o1777, "{bad:o} {found:?}");
            if let Err(why) = found {
                assert!(why.contains(path.to_str().unwrap()) && why.contains("by every user"), "{why}");
            }
        }
    }

    #[test]
    fn a_file_of_another_user_or_a_shared_group_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("silkrail-cni");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o775)).unwrap();
        chown(&file, None, Some(65534)).unwrap();
        assert!(require_trusted(&file).unwrap_err().contains("by group 65534"));
        let caller = TrustedOwners([0, 65533, 0]);
        chown(&file, Some(65533), None).unwrap();
        assert!(caller.check(&fs::metadata(&file).unwrap()).unwrap_err().contains("by group 65534"));
        chown(&file, None, Some(65533)).unwrap();
        caller.check(&fs::metadata(&file).unwrap()).unwrap();
        chown(&file, Some(65534), Some(65534)).unwrap();
        assert!(require_trusted(&file).unwrap_err().contains("is owned by user 65534"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(
            require_trusted(&link).unwrap_err().contains("silkrail-cni is owned"),
            "the target of the link is checked"
        );
        chown(&file, Some(0), Some(0)).unwrap();
        assert_eq!(require_trusted(&link).unwrap(), file.canonicalize().unwrap(), "the target is returned");
    }
}
