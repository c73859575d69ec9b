//! The errors of the sriov plugin, besides those that all plugins and all VFs have.

use std::path::PathBuf;

use identifiers::PciAddress;
use plugin_runtime::{Condition, PluginError};

/// An ADD of the sriov plugin failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SriovError {
    /// A pod of the Go plugin has the VF.
    #[error("pci address {vf} is already allocated")]
    GoPluginHasIt { vf: PciAddress, netns: PathBuf },
}

impl PluginError for SriovError {
    fn condition(&self) -> Condition {
        Condition::InUse
    }

    fn details(&self) -> String {
        let Self::GoPluginHasIt { netns, .. } = self;
        format!(
            "by the Go plugin, to a pod whose network namespace {} still exists; nothing was changed",
            netns.display()
        )
    }
}
