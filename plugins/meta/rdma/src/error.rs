//! The errors of the rdma plugin, besides those of [`exclusive_rdma`].

use identifiers::Attachment;
use plugin_runtime::{Condition, PluginError};
use sysfs::Function;

/// The function belongs to another attachment, or CHECK found no attachment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RdmaError {
    /// CHECK: the attachment has no journal.
    #[error("attachment {0} has no RDMA device")]
    NoAttachment(Attachment),
    /// Another attachment has claimed the VF.
    #[error("deviceID: {0} belongs to another attachment")]
    InUse(Function),
}

impl PluginError for RdmaError {
    fn condition(&self) -> Condition {
        match self {
            Self::NoAttachment(_) => Condition::Changed,
            Self::InUse(_) => Condition::InUse,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoAttachment(_) => String::new(),
            Self::InUse(_) => "`silkrail pods` shows the attachment".into(),
        }
    }
}
