//! Whose a VF is, in the Go sriov plugin's words.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{boot::is_from_earlier_boot, open_if_alive};

/// A VF's entry in the Go sriov plugin's directory of VFs in use.
#[derive(Debug)]
pub struct GoVfAllocation {
    pub(super) path: PathBuf,
    pub(super) netns: PathBuf,
    pub(super) modified: SystemTime,
}

impl GoVfAllocation {
    /// The path of the pod's namespace.
    pub fn netns(&self) -> &Path {
        &self.netns
    }

    /// Whether that pod lives.
    pub fn is_alive(&self) -> bool {
        !is_from_earlier_boot(self.modified) && open_if_alive(&self.netns).is_some()
    }

    /// Removes it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> Result<(), statefile::Error> {
        statefile::remove(&self.path)
    }
}
