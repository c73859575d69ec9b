//! The pod map's entry says which RDMA device the pod has.

use std::fmt;

use identifiers::Attachment;
use plugin_runtime::{Error, Node, pod_map_entry};
use podmap::{AttachMode, Entry, RdmaInfo};
use rdma::{CharDevices, Device};
use serde::{Deserialize, Serialize};

/// The pod map's entry of an attachment was given its RDMA device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodMapUpdate {
    attachment: Attachment,
    before: RdmaInfo,
}

impl PodMapUpdate {
    /// What the entry that the chain's main plugin made is to say of a device; `None` if it made none.
    pub(crate) fn of(
        node: &Node,
        attachment: &Attachment,
        device: &Device,
        char_devices: &CharDevices,
    ) -> Option<(Self, Entry)> {
        // The map is a convenience: one that cannot be read is no reason for a pod not to start.
        let mut entry = pod_map_entry::read(node, attachment).ok()??;
        let before = entry.rdma.clone();
        set_rdma_info(&mut entry.rdma, device, char_devices);
        Some((Self { attachment: attachment.clone(), before }, entry))
    }

    /// Writes the entry.
    pub(crate) fn write(&self, node: &Node, entry: &Entry) -> Result<(), Error> {
        Ok(node.state.podmap().write(&self.attachment, entry)?)
    }

    /// Writes what the entry said before. One that cannot be written is removed: nobody may take it for true.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        self.restore(node).or_else(|_| Ok(node.state.podmap().remove(&self.attachment)?))
    }

    fn restore(&self, node: &Node) -> Result<(), Error> {
        let Some(mut entry) = pod_map_entry::read(node, &self.attachment)? else { return Ok(()) };
        entry.rdma = self.before.clone();
        self.write(node, &entry)
    }
}

/// Says which device a pod has to itself.
pub(crate) fn set_rdma_info(rdma: &mut RdmaInfo, device: &Device, char_devices: &CharDevices) {
    rdma.mode = AttachMode::Exclusive;
    rdma.ibdev = Some(device.name.clone());
    rdma.port = Some(1);
    rdma.node_guid = Some(device.node_guid.to_string());
    rdma.char_devices = char_devices.names().to_vec();
}

impl fmt::Display for PodMapUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod map entry of {}", self.attachment)
    }
}
