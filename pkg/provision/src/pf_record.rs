//! The record of a PF: with it a killed run can be completed, and only VFs that silkrail created are removed.

use std::path::{Path, PathBuf};

use identifiers::PciAddress;
use serde::{Deserialize, Serialize};

use crate::DcbRecord;

/// The record of a PF, `/var/lib/silkrail/bootstrap/PCI-ADDRESS.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PfRecord {
    /// The boot in which it was written. It is not valid after a reboot, which removes VFs and resets autoprobe.
    pub boot_id: String,
    /// The former value of `sriov_drivers_autoprobe`.
    pub autoprobe: bool,
    /// The number of VFs that silkrail created.
    pub vfs: u32,
    /// The changes of its DCB settings, which are reverted if the node file does not contain them any more.
    #[serde(default, skip_serializing_if = "DcbRecord::is_empty")]
    pub dcb: DcbRecord,
    /// Whether all steps were completed.
    pub complete: bool,
}

impl PfRecord {
    /// The directory of the records on the node.
    pub const DIR: &'static str = "/var/lib/silkrail/bootstrap";

    /// Reads the record of a PF; `None` if there is none, or if it is of another boot or cannot be parsed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(dir: &Path, pf: PciAddress) -> Result<Option<Self>, statefile::Error> {
        let Some(bytes) = statefile::read(&path(dir, pf))? else { return Ok(None) };
        let memory: Option<Self> = serde_json::from_slice(&bytes).ok();
        Ok(memory.filter(|memory| journal::boot_id().is_ok_and(|boot| boot == memory.boot_id)))
    }

    /// Writes the record of a PF.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, dir: &Path, pf: PciAddress) -> Result<(), statefile::Error> {
        if let Some(parent) = dir.parent() {
            statefile::make_dir(parent, 0o755)?;
        }
        statefile::make_dir(dir, 0o700)?;
        // Strings, numbers, lists and booleans can always be serialized.
        statefile::replace(&path(dir, pf), 0o600, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Removes the record of a PF.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_boot_or_another_format_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, pf) = (dir.path().join("bootstrap"), "0000:af:00.0".parse().unwrap());
        assert_eq!(PfRecord::read(&dir, pf).unwrap(), None);
        let boot_id = journal::boot_id().unwrap().to_owned();
        let record = PfRecord { boot_id, autoprobe: true, vfs: 4, dcb: DcbRecord::default(), complete: true };
        record.write(&dir, pf).unwrap();
        assert_eq!(PfRecord::read(&dir, pf).unwrap().as_ref(), Some(&record));
        assert_eq!(PfRecord::read(&dir, "0000:af:00.1".parse().unwrap()).unwrap(), None, "of another PF");
        PfRecord { boot_id: "former".into(), ..record }.write(&dir, pf).unwrap();
        assert_eq!(PfRecord::read(&dir, pf).unwrap(), None, "a reboot removes VFs");
        std::fs::write(path(&dir, pf), "{").unwrap();
        assert_eq!(PfRecord::read(&dir, pf).unwrap(), None);
    }
}
