//! The file that exists at the path of an installation.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{Error, ReleaseVersion, Sha256, install_record::ReplacedFile, probe};

/// What exists at a path.
#[derive(Debug)]
pub(crate) enum ExistingFile {
    Nothing,
    File { content: Vec<u8>, sha256: Sha256, mode: u32, uid: u32, gid: u32 },
    Link(PathBuf),
}

impl ExistingFile {
    /// Reads what exists at a path.
    ///
    /// # Errors
    /// [`Error::NotRegular`] if it is neither a regular file nor a symbolic link.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let meta = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            other => other.map_err(Error::io("cannot read", path))?,
        };
        if meta.is_symlink() {
            return fs::read_link(path).map(Self::Link).map_err(Error::io("cannot read symbolic link", path));
        }
        if !meta.is_file() {
            return Err(Error::NotRegular { path: path.to_owned() });
        }
        let content = fs::read(path).map_err(Error::io("cannot read", path))?;
        let sha256 = Sha256::of(&content);
        let (mode, uid, gid) = (meta.mode() & 0o7777, meta.uid(), meta.gid());
        Ok(Self::File { content, sha256, mode, uid, gid })
    }

    /// Runs the file with `--version` if it contains the name of `program`, and returns its release. Other files are not run.
    pub(crate) fn release(&self, path: &Path, program: &str) -> Option<ReleaseVersion> {
        let Self::File { content, .. } = self else { return None };
        if !content.windows(program.len()).any(|part| part == program.as_bytes()) {
            return None;
        }
        let (name, release) = probe::version(path).ok()?;
        (name == program).then_some(release)
    }

    pub(crate) fn sha256(&self) -> Option<Sha256> {
        match self {
            Self::File { sha256, .. } => Some(*sha256),
            _ => None,
        }
    }

    /// The record of this file for the time when it is replaced.
    pub(crate) fn origin(&self) -> Option<ReplacedFile> {
        match self {
            Self::Nothing => None,
            Self::File { sha256, mode, uid, gid, .. } => {
                Some(ReplacedFile::File { sha256: *sha256, mode: *mode, uid: *uid, gid: *gid })
            }
            Self::Link(target) => Some(ReplacedFile::Link { target: target.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_programs::{plugins, program};

    #[test]
    fn our_program_reports_its_release_and_others_are_not_executed() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, other, ran) =
            (dir.path().join("macvlan"), dir.path().join("bridge"), dir.path().join("ran"));
        plugins(&ours, "0.3.0");
        program(&other, &format!("touch {}", ran.display()));
        let of = |path| ExistingFile::read(path).unwrap().release(path, "silkrail-cni");
        assert_eq!(of(&ours), Some(ReleaseVersion::new("0.3.0")));
        assert_eq!(of(&other), None);
        assert!(!ran.exists());
    }

    #[test]
    fn a_directory_is_strange_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(ExistingFile::read(dir.path()), Err(Error::NotRegular { .. })));
        let link = dir.path().join("macvlan");
        std::os::unix::fs::symlink("cni", &link).unwrap();
        assert_eq!(
            ExistingFile::read(&link).unwrap().origin(),
            Some(ReplacedFile::Link { target: "cni".into() })
        );
    }
}
