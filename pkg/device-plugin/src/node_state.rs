//! The state of a node besides its devices.

use std::collections::BTreeSet;

use crate::{DeviceUse, PciPath};

/// The state of a node, which all its resources need.
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// Where the GPUs are.
    pub gpus: Vec<PciPath>,
    /// Who uses the devices.
    pub device_use: DeviceUse,
    /// The IDs of the devices that are offered exclusively, of all resources.
    pub exclusive_devices: BTreeSet<String>,
    /// Whether a network namespace has its own RDMA devices.
    pub is_rdma_exclusive: bool,
}
