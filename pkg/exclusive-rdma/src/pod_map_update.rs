//! Adding the RDMA device to the pod map's entry, as a change that can be reverted.

use std::fmt;

use identifiers::Attachment;
use plugin_runtime::{Error, Node, pod_map_entry};
use podmap::{AttachMode, Entry, RdmaInfo};
use rdma::{CharDevices, Device};
use serde::{Deserialize, Serialize};

/// The change that the RDMA device was added to the pod map's entry of an attachment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodMapUpdate {
    attachment: Attachment,
    before: RdmaInfo,
}

impl PodMapUpdate {
    /// Returns the change and the new entry; `None` if the chain's main plugin wrote none.
    pub(crate) fn of(
        node: &Node,
        attachment: &Attachment,
        device: &Device,
        char_devices: &CharDevices,
    ) -> Option<(Self, Entry)> {
        // The pod's network does not depend on the pod map, so the pod starts even if the entry cannot be read.
        let mut entry = pod_map_entry::read(node, attachment).ok()??;
        let before = entry.rdma.clone();
        set_rdma_info(&mut entry.rdma, device, char_devices);
        Some((Self { attachment: attachment.clone(), before }, entry))
    }

    /// Writes the entry.
    pub(crate) fn write(&self, node: &Node, entry: &Entry) -> Result<(), Error> {
        Ok(node.state.podmap().write(&self.attachment, entry)?)
    }

    /// Restores the former content of the entry. If that fails, the entry is removed, because it would be wrong.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        self.restore(node).or_else(|_| Ok(node.state.podmap().remove(&self.attachment)?))
    }

    fn restore(&self, node: &Node) -> Result<(), Error> {
        let Some(mut entry) = pod_map_entry::read(node, &self.attachment)? else { return Ok(()) };
        entry.rdma = self.before.clone();
        self.write(node, &entry)
    }
}

/// Sets the exclusive RDMA device in the `rdma` part of an entry.
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

#[cfg(test)]
mod tests {
    use rdma::Guid;
    use state::StateDir;

    use super::*;
    use crate::device_move::tests::device;

    #[test]
    fn the_entry_has_the_device_until_the_former_content_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::new(StateDir::at(dir.path()), Vec::new(), None);
        let attachment: Attachment = "c0ffee@net1".parse().unwrap();
        let device = device(7, "mlx5_3", 1);
        let char_devices: CharDevices = serde_json::from_str(r#"["umad3", "uverbs3"]"#).unwrap();
        let update = || PodMapUpdate::of(&node, &attachment, &device, &char_devices);
        assert!(update().is_none(), "the main plugin wrote no entry");
        let mut former = Entry::new("sriov", attachment.clone());
        (former.rdma.pci, former.rdma.vf_index) = ("0000:af:00.3".parse().ok(), Some(1));
        node.state.podmap().write(&attachment, &former).unwrap();
        let (change, entry) = update().unwrap();
        change.write(&node, &entry).unwrap();
        let read = || pod_map_entry::read(&node, &attachment).unwrap();
        let rdma = read().unwrap().rdma;
        assert_eq!(
            (rdma.mode, rdma.ibdev.as_deref(), rdma.port),
            (AttachMode::Exclusive, Some("mlx5_3"), Some(1))
        );
        assert_eq!(rdma.node_guid, Some(Guid(1).to_string()));
        assert_eq!(rdma.char_devices, ["umad3", "uverbs3"]);
        assert_eq!((rdma.pci, rdma.vf_index), (former.rdma.pci, Some(1)), "of the main plugin");
        change.revert(&node).unwrap();
        assert_eq!(read().unwrap(), former);
        node.state.podmap().remove(&attachment).unwrap();
        change.revert(&node).unwrap();
        assert!(read().is_none());
    }
}
