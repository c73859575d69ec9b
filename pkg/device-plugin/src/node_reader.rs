//! Reads the devices of the node, and who uses them.

use std::{collections::BTreeSet, io, path::PathBuf};

use kubelet_checkpoint::{KubeletCheckpoint, KubeletDirectory};
use podmap::PodMap;
use rdma::NetnsMode;
use sysfs::Sysfs;

use crate::{DeviceUse, Fabric, NodeDevice, NodeDevices, NodeState};

/// Where the devices of a node and their use are read.
#[derive(Debug, Clone)]
pub struct NodeReader {
    /// The root directory of the node.
    pub root: PathBuf,
    /// The devices.
    pub sysfs: Sysfs,
    /// Which container has which device.
    pub pod_map: PodMap,
    /// The directory with the kubelet's checkpoint.
    pub kubelet: KubeletDirectory,
    /// Where its ports are in the fabric.
    pub fabric: Fabric,
}

/// What was read.
#[derive(Debug, Clone)]
pub struct NodeReading {
    /// The devices.
    pub devices: NodeDevices,
    /// Their use.
    pub state: NodeState,
    /// What could not be read, and was left out.
    pub warnings: Vec<String>,
}

/// Why the devices cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NodeReadError {
    /// Of the default routes.
    #[error("the links of the default routes cannot be read: {0}")]
    DefaultRoutes(#[from] inventory::Error),
    /// Of sysfs.
    #[error("the devices of the node cannot be read: {0}")]
    Devices(#[from] sysfs::Error),
    /// Of the boot ID.
    #[error("the boot ID cannot be read: {0}")]
    BootId(#[from] io::Error),
    /// Of the pod map.
    #[error("the pod map cannot be read: {0}")]
    PodMap(#[from] podmap::Error),
}

impl NodeReader {
    /// Reads one device by its ID; `None` if it does not exist.
    ///
    /// # Errors
    /// [`sysfs::Error`] if its files cannot be read.
    pub fn find(&self, id: &str) -> Result<Option<NodeDevice>, sysfs::Error> {
        let device = NodeDevices::find(&self.sysfs, id)?;
        Ok(device.map(|device| NodeDevice { rail: self.fabric.rail(&device), ..device }))
    }

    /// Reads the devices and their use. Without the kubelet's checkpoint, nobody is taken for a wrong holder.
    ///
    /// # Errors
    /// [`NodeReadError`].
    pub fn read(&self) -> Result<NodeReading, NodeReadError> {
        let mut devices = NodeDevices::read(&self.sysfs, &inventory::default_route_links()?)?;
        devices.devices.iter_mut().for_each(|device| device.rail = self.fabric.rail(device));
        let (mut entries, mut warnings) = (Vec::new(), Vec::new());
        for entry in self.pod_map.read_all()? {
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        // A kubelet with another directory has allocated devices that are not known here.
        let checkpoint = match KubeletCheckpoint::read(&self.kubelet) {
            Ok(checkpoint) => self.kubelet.is_used().then_some(checkpoint),
            Err(error) => {
                warnings.push(error.to_string());
                None
            }
        };
        let device_use = DeviceUse::new(&entries, bootid::current()?, checkpoint);
        let pods = devices.devices.iter().flat_map(|device| device_use.pods_with(&device.id));
        let ended = kubepods::ended(&self.root, pods.filter_map(|uid| uid.parse().ok()).collect());
        let state = NodeState {
            gpus: devices.gpus.clone(),
            // Without an answer, each may still use its devices.
            device_use: device_use.with_ended(ended.unwrap_or_default()),
            exclusive_devices: BTreeSet::new(),
            is_rdma_exclusive: is_rdma_exclusive(),
        };
        Ok(NodeReading { devices, state, warnings })
    }
}

/// Whether a network namespace has its own RDMA devices. Without an answer, such as of a kernel without RDMA, it does not.
fn is_rdma_exclusive() -> bool {
    let mode = rdma::Handle::open_here().ok().and_then(|handle| handle.netns_mode().ok());
    mode == Some(NetnsMode::Exclusive)
}
