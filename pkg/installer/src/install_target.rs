//! One name that gets a program, and what has to be done for it.

use std::path::PathBuf;

use crate::{
    Error, InstallAction, ReleaseVersion, Sha256,
    existing_file::ExistingFile,
    install_record::{InstalledFile, ReplacedFile},
    source_program::SourceProgram,
};

/// Everybody may execute what is installed.
pub(crate) const MODE: u32 = 0o755;

/// A name that gets a program.
#[derive(Debug, Clone)]
pub(crate) struct InstallTarget {
    /// Which of the installation's programs.
    pub(crate) program: usize,
    /// The file, seen from here.
    pub(crate) here: PathBuf,
    /// The same as the node names it.
    pub(crate) on_node: PathBuf,
}

/// What has to be done for it.
#[derive(Debug)]
pub(crate) struct InstallStep {
    pub(crate) target: InstallTarget,
    pub(crate) action: InstallAction,
    /// What is there.
    pub(crate) existing: ExistingFile,
    /// Its release, if it is ours.
    pub(crate) was: Option<ReleaseVersion>,
    /// What will be noted of it.
    pub(crate) entry: InstalledFile,
    /// The origin in the entry is not kept yet.
    pub(crate) keep: bool,
}

impl InstallTarget {
    /// Compares what is there with what should be, and with what was noted.
    ///
    /// # Errors
    /// [`Error::Strange`], or [`Error::Downgrade`] unless that is what is wanted.
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

    /// The release of a file of ours; `None` if it is somebody else's.
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

/// Whether it is what we once replaced, put back by somebody.
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
    /// Nothing is done where somebody else's file is.
    pub(crate) fn spare_others(self) -> Self {
        match self.action {
            InstallAction::Replace => {
                let entry = InstalledFile { origin: None, ..self.entry };
                Self { action: InstallAction::LeftAlone, keep: false, entry, ..self }
            }
            _ => self,
        }
    }

    /// The content that must be kept first.
    pub(crate) fn content_to_keep(&self) -> Option<&[u8]> {
        match &self.existing {
            ExistingFile::File { content, .. } if self.keep => Some(content),
            _ => None,
        }
    }

    /// What is noted while it is done: what is there now counts as ours too if it is.
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
