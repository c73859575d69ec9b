//! The Go sriov plugin's record of a VF in use.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{boot::is_from_earlier_boot, live_netns::open_if_alive};

/// The file of a VF in the Go sriov plugin's directory of VFs in use, `/var/lib/cni/sriov/pci`.
#[derive(Debug)]
pub struct GoVfAllocation {
    pub(super) path: PathBuf,
    pub(super) netns: PathBuf,
    pub(super) modified: SystemTime,
}

impl GoVfAllocation {
    /// Returns the path of the pod's network namespace.
    pub fn netns(&self) -> &Path {
        &self.netns
    }

    /// Whether the pod's network namespace exists.
    pub fn is_alive(&self) -> bool {
        !is_from_earlier_boot(self.modified) && open_if_alive(&self.netns).is_some()
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn remove(self) -> Result<(), statefile::Error> {
        statefile::remove(&self.path)
    }
}
