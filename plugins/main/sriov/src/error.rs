//! The errors of the sriov plugin, besides those that all plugins and all VFs have.

use std::path::PathBuf;

use identifiers::{Attachment, PciAddress};
use plugin_runtime::{Condition, PluginError};

/// An ADD or CHECK of the sriov plugin failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SriovError {
    /// CHECK: there is no journal.
    #[error("there is no attachment {0}")]
    NoAttachment(Attachment),
    /// A pod of the Go plugin has the VF.
    #[error("pci address {vf} is already allocated")]
    GoPluginHasIt { vf: PciAddress, netns: PathBuf },
}

impl PluginError for SriovError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_) => Condition::Changed,
            Self::GoPluginHasIt { .. } => Condition::InUse,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoAttachment(_) => String::new(),
            Self::GoPluginHasIt { netns, .. } => format!(
                "by the Go plugin, to a pod whose network namespace {} still exists; nothing was changed",
                netns.display()
            ),
        }
    }
}
