//! The Go sriov plugin's record of a VF in use.

use std::path::{Path, PathBuf};

use super::live_netns::open_if_alive;

/// The file of a VF in the Go sriov plugin's directory of VFs in use, `/var/lib/cni/sriov/pci`.
#[derive(Debug)]
pub struct GoVfAllocation {
    pub(super) path: PathBuf,
    pub(super) netns: PathBuf,
    /// Whether it was written before the last boot.
    pub(super) is_old: bool,
}

impl GoVfAllocation {
    /// Returns the path of the pod's network namespace.
    pub fn netns(&self) -> &Path {
        &self.netns
    }

    /// Whether the pod's network namespace exists.
    pub fn is_alive(&self) -> bool {
        !self.is_old && open_if_alive(&self.netns).is_some()
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> Result<(), statefile::Error> {
        statefile::remove(&self.path)
    }
}
