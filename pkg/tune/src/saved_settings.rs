//! The saved former values of settings.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{Error, SettingChange};

const DIR: &str = "var/lib/silkrail";

/// How long to wait for another `silkrail tune` that holds the lock.
const TUNE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The changes that were made, the oldest first: the content of `/var/lib/silkrail/tune.json`. They are kept across reboots,
/// because files such as the sysctl configuration are, and other settings are applied again at each boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedSettings {
    /// The changes, one for each setting.
    pub changes: Vec<SettingChange>,
}

impl SavedSettings {
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join(DIR).join("tune.json")
    }

    /// Reads the saved changes of a node; empty if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read or parsed.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let path = Self::path(root);
        let Some(bytes) = statefile::read(&path)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).map_err(|source| Error::Memory { path, source })
    }

    /// Adds a change that is about to be made. Of several changes of a setting, the first former value is kept.
    pub(crate) fn record(&mut self, change: &SettingChange) {
        match self.changes.iter_mut().find(|known| known.knob == change.knob) {
            Some(known) if known.to == change.from || known.to == change.to => {
                known.to.clone_from(&change.to)
            }
            // Another program has changed the setting since, so its value is the new former value.
            Some(known) => *known = change.clone(),
            None => self.changes.push(change.clone()),
        }
    }

    /// Locks the directory, so that no other `silkrail tune` changes settings until the returned file is closed.
    pub(crate) fn lock(root: &Path) -> Result<File, Error> {
        let dir = root.join(DIR);
        statefile::make_dir(&dir, 0o755)?;
        let file = File::open(&dir).map_err(|source| Error::Io { path: dir.clone(), source })?;
        statefile::lock(&file, &dir, Instant::now() + TUNE_LOCK_TIMEOUT)?;
        Ok(file)
    }

    /// Writes the changes durably to the disk, or removes the file if there are none.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Error> {
        let path = Self::path(root);
        if self.changes.is_empty() {
            return Ok(statefile::remove(&path)?);
        }
        // Serializing strings to JSON cannot fail.
        let content = serde_json::to_vec_pretty(self).unwrap_or_default();
        statefile::replace_durably(&path, 0o600, &content).map_err(|source| Error::Io { path, source })
    }
}
