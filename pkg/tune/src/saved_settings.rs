//! What settings were before.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{Error, SettingChange};

const DIR: &str = "var/lib/silkrail";

/// How long another `silkrail tune` may take.
const TUNE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// What was changed, the oldest first. It outlives boots: files do, and who sets the rest again at each boot does not want
/// to forget what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedSettings {
    /// The changes: one for each setting.
    pub changes: Vec<SettingChange>,
}

impl SavedSettings {
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join(DIR).join("tune.json")
    }

    /// What is remembered on a node.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of ours.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let path = Self::path(root);
        let Some(bytes) = statefile::read(&path)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).map_err(|source| Error::Memory { path, source })
    }

    /// Remembers a change that is about to be made. What a setting was before the first of several stays.
    pub(crate) fn record(&mut self, change: &SettingChange) {
        match self.changes.iter_mut().find(|known| known.knob == change.knob) {
            Some(known) if known.to == change.from || known.to == change.to => {
                known.to.clone_from(&change.to)
            }
            // Somebody else has set it since, so that is what it was.
            Some(known) => *known = change.clone(),
            None => self.changes.push(change.clone()),
        }
    }

    /// Keeps others from changing settings for as long as the file lives.
    pub(crate) fn lock(root: &Path) -> Result<File, Error> {
        let dir = root.join(DIR);
        statefile::make_dir(&dir, 0o755)?;
        let file = File::open(&dir).map_err(|source| Error::Io { path: dir.clone(), source })?;
        statefile::lock(&file, &dir, Instant::now() + TUNE_LOCK_TIMEOUT)?;
        Ok(file)
    }

    /// On the disk: the changes outlive boots, and so must what settings were before.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Error> {
        let path = Self::path(root);
        if self.changes.is_empty() {
            return Ok(statefile::remove(&path)?);
        }
        // Texts always have a JSON.
        let content = serde_json::to_vec_pretty(self).unwrap_or_default();
        statefile::replace_durably(&path, 0o600, &content).map_err(|source| Error::Io { path, source })
    }
}
