//! The counters of a port, as the file of offsets has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The 32-bit counters of a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedPort {
    pub(super) index: u32,
    pub(super) port: u32,
    /// The PCI function of the device, or its name. The kernel could give the index to another device.
    pub(super) device: String,
    /// How often counters of the port were reset.
    pub(super) resets: u64,
    /// Raw value and offset of each counter.
    pub(super) counters: BTreeMap<String, (u64, u64)>,
}
