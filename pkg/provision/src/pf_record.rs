//! What is remembered of a PF, so that a run that was killed can be finished, and only our VFs are removed.

use std::path::{Path, PathBuf};

use identifiers::PciAddress;
use serde::{Deserialize, Serialize};

/// What is remembered of a PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PfRecord {
    /// The boot in which it was written: VFs and what the PF was told are gone with it.
    pub boot_id: String,
    /// Whether the kernel bound the PF's new VFs before we came.
    pub autoprobe: bool,
    /// How many VFs we made.
    pub vfs: u32,
    /// Whether all steps were done.
    pub complete: bool,
}

impl PfRecord {
    /// Where it is kept.
    pub const DIR: &'static str = "/var/lib/silkrail/bootstrap";

    /// What is remembered of a PF in this boot. A file that is not understood tells nothing, as none does.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(dir: &Path, pf: PciAddress) -> Result<Option<Self>, statefile::Error> {
        let Some(bytes) = statefile::read(&path(dir, pf))? else { return Ok(None) };
        let memory: Option<Self> = serde_json::from_slice(&bytes).ok();
        Ok(memory.filter(|memory| journal::boot_id().is_ok_and(|boot| boot == memory.boot_id)))
    }

    /// Remembers it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, dir: &Path, pf: PciAddress) -> Result<(), statefile::Error> {
        if let Some(parent) = dir.parent() {
            statefile::make_dir(parent, 0o755)?;
        }
        statefile::make_dir(dir, 0o700)?;
        // Text, a number and two truths always have a JSON.
        statefile::replace(&path(dir, pf), 0o600, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Forgets it.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(dir: &Path, pf: PciAddress) -> Result<(), statefile::Error> {
        statefile::remove(&path(dir, pf))
    }
}

fn path(dir: &Path, pf: PciAddress) -> PathBuf {
    dir.join(format!("{pf}.json"))
}
