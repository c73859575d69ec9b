//! What can go wrong with the rdma plugin, beside what can with an RDMA device.

use identifiers::Attachment;
use plugin_runtime::{Condition, PluginError};
use sysfs::Function;

/// The function's RDMA device is not to be had, or not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RdmaError {
    /// CHECK: there is no journal.
    #[error("attachment {0} has no RDMA device")]
    NoAttachment(Attachment),
    /// Another pod has the VF.
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
            Self::InUse(_) => "`silkrail pods` shows to which".into(),
        }
    }
}
