//! Whether a file is what root may run: whoever can change it, or put another in its place, is trusted already.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const OF_GROUP: u32 = 0o020;
const OF_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Looks at a file and at every directory above it, and returns the path that was looked at: it leads over no link, which
/// somebody could turn meanwhile.
///
/// # Errors
/// What is wrong with which of them, as the end of a sentence.
pub(crate) fn require_trusted(path: &Path) -> Result<PathBuf, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let trusted = TrustedOwners::of_this_process();
    for place in path.ancestors() {
        let meta = fs::symlink_metadata(place).map_err(|error| format!("{}: {error}", place.display()))?;
        trusted.look(&meta).map_err(|why| format!("{} {why}", place.display()))?;
    }
    Ok(path)
}

/// Whose files root may run: root's own, the caller's, and those of whoever this program belongs to, for root runs that.
struct TrustedOwners([u32; 3]);

impl TrustedOwners {
    fn of_this_process() -> Self {
        let own = fs::metadata("/proc/self/exe").map_or(0, |meta| meta.uid());
        Self([0, nix::unistd::geteuid().as_raw(), own])
    }

    fn look(&self, meta: &Metadata) -> Result<(), String> {
        let (owner, group, mode) = (meta.uid(), meta.gid(), meta.mode());
        if !self.0.contains(&owner) {
            return Err(format!("belongs to user {owner}"));
        }
        // In a directory like /tmp nobody can replace another's file.
        if meta.is_dir() && mode & STICKY != 0 {
            return Ok(());
        }
        // Many systems give each user a group of the same number, and nobody else is in it.
        if mode & OF_GROUP != 0 && group != 0 && group != owner {
            return Err(format!("can be changed by group {group} (mode {:04o})", mode & 0o7777));
        }
        if mode & OF_OTHERS != 0 {
            return Err(format!("can be changed by everybody (mode {:04o})", mode & 0o7777));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn what_others_can_change_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (sub, file) = (dir.path().join("dist"), dir.path().join("dist/silkrail-cni"));
        fs::create_dir(&sub).unwrap();
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&sub, 0o755);
        mode(&file, 0o755);
        require_trusted(&file).unwrap();
        for (path, bad, good) in [(&file, 0o757, 0o755), (&sub, 0o777, 0o755), (&sub, 0o1777, 0o755)] {
            mode(path, bad);
            let found = require_trusted(&file);
            mode(path, good);
            assert_eq!(found.is_ok(), bad == 0o1777, "{bad:o} {found:?}");
            if let Err(why) = found {
                assert!(why.contains(path.to_str().unwrap()) && why.contains("by everybody"), "{why}");
            }
        }
    }

    #[test]
    fn what_belongs_to_somebody_else_or_to_a_group_of_many_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("silkrail-cni");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o775)).unwrap();
        chown(&file, None, Some(65534)).unwrap();
        assert!(require_trusted(&file).unwrap_err().contains("by group 65534"));
        chown(&file, Some(65534), None).unwrap();
        assert!(require_trusted(&file).unwrap_err().contains("belongs to user 65534"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(
            require_trusted(&link).unwrap_err().contains("silkrail-cni belongs"),
            "it is the file that runs"
        );
        chown(&file, Some(0), Some(0)).unwrap();
        assert_eq!(require_trusted(&link).unwrap(), file.canonicalize().unwrap(), "and not the link");
    }
}
