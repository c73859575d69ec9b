//! Reads the devices of the node, and who uses them.

use device_plugin::{DeviceUse, NodeDevices, NodeState};
use kubelet_plugin::{KubeletCheckpoint, KubeletDirectory};
use podmap::PodMap;
use rdma::NetnsMode;
use sysfs::Sysfs;
use tracing::warn;

/// Reads the devices of the node.
#[derive(Debug, Clone)]
pub(super) struct NodeReader {
    pub(super) sysfs: Sysfs,
    pub(super) pod_map: PodMap,
    pub(super) kubelet: KubeletDirectory,
}

impl NodeReader {
    /// Returns the devices and their use; `None` if they cannot be read, which is logged. The former ones are then still valid.
    pub(super) fn read(&self) -> Option<(NodeDevices, NodeState)> {
        let devices = self.devices()?;
        let device_use = self.device_use()?;
        let is_rdma_exclusive = is_rdma_exclusive();
        let node = NodeState { gpus: devices.gpus.clone(), device_use, is_rdma_exclusive };
        Some((devices, node))
    }

    fn devices(&self) -> Option<NodeDevices> {
        let default_routes = logged("the links of the default routes", inventory::default_route_links())?;
        logged("the devices of the node", NodeDevices::read(&self.sysfs, &default_routes))
    }

    fn device_use(&self) -> Option<DeviceUse> {
        let boot_id = logged("the boot ID", bootid::current())?;
        let entries = logged("the pod map", self.pod_map.read_all())?;
        let entries: Vec<_> =
            entries.into_iter().filter_map(|it| logged("an entry of the pod map", it)).collect();
        let checkpoint = logged("the allocations of the kubelet", KubeletCheckpoint::read(&self.kubelet));
        Some(DeviceUse::new(&entries, boot_id, checkpoint))
    }
}

/// Whether a network namespace has its own RDMA devices. Without an answer, such as of a kernel without RDMA, it does not.
fn is_rdma_exclusive() -> bool {
    let mode = rdma::Handle::open_here().ok().and_then(|handle| handle.netns_mode().ok());
    mode == Some(NetnsMode::Exclusive)
}

fn logged<T, E: std::error::Error>(what: &str, result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| warn!(%error, "{what} cannot be read")).ok()
}
