//! What settings were before.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Change;

/// What was changed, the oldest first. It outlives boots: files do, and who sets the rest again at each boot does not want
/// to forget what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory {
    /// The changes: one for each setting.
    pub changes: Vec<Change>,
}

impl Memory {
    pub(crate) fn path(root: &Path) -> PathBuf {
        root.join("var/lib/silkrail/tune.json")
    }

    /// What is remembered on a node.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of ours.
    pub fn read(root: &Path) -> Result<Self, crate::Error> {
        let path = Self::path(root);
        let Some(bytes) = statefile::read(&path)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).map_err(|source| crate::Error::Memory { path, source })
    }

    /// Remembers a change that is about to be made. What a setting was before the first of several stays.
    pub(crate) fn note(&mut self, change: &Change) {
        match self.changes.iter_mut().find(|known| known.knob == change.knob) {
            Some(known) if known.to == change.from || known.to == change.to => {
                known.to.clone_from(&change.to)
            }
            // Somebody else has set it since, so that is what it was.
            Some(known) => *known = change.clone(),
            None => self.changes.push(change.clone()),
        }
    }

    pub(crate) fn write(&self, root: &Path) -> Result<(), statefile::Error> {
        let path = Self::path(root);
        if self.changes.is_empty() {
            return statefile::remove(&path);
        }
        if let Some(dir) = path.parent() {
            statefile::make_dir(dir, 0o755)?;
        }
        // Texts always have a JSON.
        statefile::replace(&path, 0o600, &serde_json::to_vec_pretty(self).unwrap_or_default())
    }
}
