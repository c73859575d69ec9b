//! The content of `rdma.json`.

use std::{net::IpAddr, path::PathBuf};

use podmap::AttachMode;
use serde::Serialize;
use sysfs::Function;

/// The RDMA devices of a pod: the content of `rdma.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRdma {
    /// The version of the format. Keys are added without a new version.
    pub version: u32,
    /// The pod.
    pub pod: PodRdmaPod,
    /// Its devices, by interface.
    pub devices: Vec<PodRdmaDevice>,
}

/// The pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodRdmaPod {
    /// The Kubernetes namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
}

/// A port of an RDMA device that a pod uses through one of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRdmaDevice {
    /// The name of the device: `mlx5_3`.
    pub name: String,
    /// The number of the port.
    pub port: u32,
    /// Whether other pods use the device too.
    pub mode: AttachMode,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// The interface in the pod: `net1`.
    pub interface: String,
    /// The network of the interface.
    pub network: String,
    /// The MTU of the interface, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The VLAN ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The PCI address of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// The NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// The rail of the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<u32>,
    /// The traffic class that packets must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<u8>,
    /// The function; `None` for a software device.
    #[serde(skip)]
    pub function: Option<Function>,
    /// The character devices of the function.
    pub char_devices: Vec<PathBuf>,
    /// The addresses of the interface, each with its entry of the GID table.
    pub gids: Vec<PodGid>,
}

/// An address of a pod and its entry of the GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodGid {
    /// The address.
    pub address: IpAddr,
    /// The index of the entry of type RoCE v2; `null` if the kernel has not added it.
    pub index: Option<u32>,
}

impl PodRdmaDevice {
    /// Whether its packets are those of RoCE.
    pub fn is_roce(&self) -> bool {
        self.link_layer == "Ethernet"
    }
}

impl PodRdma {
    /// Whether each address is in the GID table of its device. InfiniBand has GIDs of its own.
    pub fn has_all_gids(&self) -> bool {
        let gids = self.devices.iter().flat_map(|device| &device.gids);
        gids.into_iter().all(|gid| gid.index.is_some())
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    pub(crate) fn device(name: &str, gids: &[(&str, Option<u32>)]) -> PodRdmaDevice {
        let gid = |&(address, index): &(&str, _)| PodGid { address: address.parse().unwrap(), index };
        PodRdmaDevice {
            name: name.into(),
            port: 1,
            mode: AttachMode::Exclusive,
            link_layer: "Ethernet".into(),
            interface: "net1".into(),
            network: "rail".into(),
            mtu: None,
            vlan: None,
            pci_address: None,
            numa_node: None,
            rail: None,
            traffic_class: None,
            function: None,
            char_devices: Vec::new(),
            gids: gids.iter().map(gid).collect(),
        }
    }

    pub(crate) fn pod(devices: Vec<PodRdmaDevice>) -> PodRdma {
        let pod = PodRdmaPod { namespace: "default".into(), name: "train-0".into(), uid: "5d3f".into() };
        PodRdma { version: 1, pod, devices }
    }
}
