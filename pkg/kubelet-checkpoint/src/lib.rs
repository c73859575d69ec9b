//! The kubelet's checkpoint of device plugins: which pod has which devices.
//!
//! It is read even if the kubelet does not respond.

#![forbid(unsafe_code)]

mod checkpoint;
mod directory;

pub use checkpoint::{CheckpointError, KubeletCheckpoint};
pub use directory::KubeletDirectory;
