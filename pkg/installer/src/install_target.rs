//! One file to install, and the step that it needs.

use std::path::PathBuf;

use crate::{
    Error, InstallAction, ReleaseVersion, Sha256,
    existing_file::ExistingFile,
    install_record::{InstalledFile, ReplacedFile},
    source_program::SourceProgram,
};

/// The permissions of installed files: every user may execute them.
pub(crate) const MODE: u32 = 0o755;

/// A path that a program is installed at.
#[derive(Debug, Clone)]
pub(crate) struct InstallTarget {
    /// The index of the program in the installer's list.
    pub(crate) program: usize,
    /// The path in this process' file system.
    pub(crate) here: PathBuf,
    /// The path on the node.
    pub(crate) on_node: PathBuf,
}

/// The step that a target needs.
#[derive(Debug)]
pub(crate) struct InstallStep {
    pub(crate) target: InstallTarget,
    pub(crate) action: InstallAction,
    /// The file that exists there now.
    pub(crate) existing: ExistingFile,
    /// The release of the existing file, if it is one of Silkrail's.
    pub(crate) was: Option<ReleaseVersion>,
    /// The record entry of the new file.
    pub(crate) entry: InstalledFile,
    /// Whether the existing file must still be saved in the store.
    pub(crate) keep: bool,
}

impl InstallTarget {
    /// Compares the existing file with the program and with the record entry in `noted`.
    ///
    /// # Errors
    /// [`Error::NotRegular`], or [`Error::Downgrade`] unless `force` is set.
    pub(crate) fn step(
        &self,
        program: &SourceProgram,
        noted: Option<&InstalledFile>,
        force: bool,
    ) -> Result<InstallStep, Error> {
        let existing = ExistingFile::read(&self.here)?;
        let was = self.release_of(&existing, program, noted);
        if let Some(installed) = was.as_ref().filter(|was| program.release.is_older_than(was) && !force) {
            let (path, installed, offered) =
                (self.on_node.clone(), installed.clone(), program.release.clone());
            return Err(Error::Downgrade { path, installed, offered });
        }
        let action = match &existing {
            ExistingFile::Nothing => InstallAction::Install,
            ExistingFile::File { sha256, mode: MODE, .. } if *sha256 == program.sha256 => {
                InstallAction::Unchanged
            }
            _ if was.is_some() => InstallAction::Upgrade,
            _ => InstallAction::Replace,
        };
        let noted_origin = noted.and_then(|entry| entry.origin.clone());
        let keep = action == InstallAction::Replace && !is_same(&existing, noted_origin.as_ref());
        let origin = if keep { existing.origin() } else { noted_origin };
        let entry = InstalledFile { sha256: vec![program.sha256], release: program.release.clone(), origin };
        Ok(InstallStep { target: self.clone(), action, existing, was, entry, keep })
    }

    /// The release of the existing file; `None` if it belongs to another project.
    fn release_of(
        &self,
        existing: &ExistingFile,
        program: &SourceProgram,
        noted: Option<&InstalledFile>,
    ) -> Option<ReleaseVersion> {
        let sha256 = existing.sha256()?;
        if sha256 == program.sha256 {
            return Some(program.release.clone());
        }
        let noted = noted.filter(|entry| entry.sha256.contains(&sha256)).map(|entry| entry.release.clone());
        noted.or_else(|| existing.release(&self.here, program.name))
    }
}

/// Whether the existing file is the one that an earlier run replaced, restored in the meantime.
fn is_same(existing: &ExistingFile, origin: Option<&ReplacedFile>) -> bool {
    match (existing, origin) {
        (ExistingFile::File { sha256, .. }, Some(ReplacedFile::File { sha256: noted, .. })) => {
            sha256 == noted
        }
        (ExistingFile::Link(target), Some(ReplacedFile::Link { target: noted })) => target == noted,
        _ => false,
    }
}

impl InstallStep {
    /// Leaves a file of another project unchanged.
    pub(crate) fn spare_others(self) -> Self {
        match self.action {
            InstallAction::Replace => {
                let entry = InstalledFile { origin: None, ..self.entry };
                Self { action: InstallAction::LeftAlone, keep: false, entry, ..self }
            }
            _ => self,
        }
    }

    /// The content that must be saved before the file is replaced.
    pub(crate) fn content_to_keep(&self) -> Option<&[u8]> {
        match &self.existing {
            ExistingFile::File { content, .. } if self.keep => Some(content),
            _ => None,
        }
    }

    /// The entry while the step is in progress: it also contains the hash of the existing file if that is Silkrail's.
    pub(crate) fn entry_meanwhile(&self) -> InstalledFile {
        let mut entry = self.entry.clone();
        let before = self
            .existing
            .sha256()
            .filter(|sha256: &Sha256| self.was.is_some() && !entry.sha256.contains(sha256));
        entry.sha256.splice(0..0, before);
        entry
    }
}
