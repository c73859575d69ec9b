//! The errors of the rdma plugin, besides those of [`exclusive_rdma`].

use identifiers::{Attachment, PciAddress};
use plugin_runtime::{Condition, PluginError};
use sysfs::Function;

/// The function belongs to another attachment, or CHECK found no attachment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RdmaError {
    /// CHECK: the attachment has no journal.
    #[error("attachment {0} has no RDMA device")]
    NoAttachment(Attachment),
    /// The RDMA device of a PF that the node uses.
    #[error("deviceID: {pf} is a PF {why}: its RDMA device is the node's")]
    PfInUse { pf: PciAddress, why: String },
    /// Another attachment has claimed the VF.
    #[error("deviceID: {0} belongs to another attachment")]
    InUse(Function),
}

impl PluginError for RdmaError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_) => Condition::Changed,
            Self::InUse(_) | Self::PfInUse { .. } => Condition::InUse,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoAttachment(_) => String::new(),
            Self::PfInUse { .. } => "nothing was changed. A move would end the connections of storage and of pods that share the \
                 device: select a VF, or set rdma.allowPf in the network if the pod is to have the PF's device"
                .into(),
            Self::InUse(_) => "`silkrail pods` shows the attachment".into(),
        }
    }
}
