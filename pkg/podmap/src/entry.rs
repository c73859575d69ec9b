//! One attachment's entry.

use std::path::PathBuf;

use identifiers::{Attachment, PciAddress};
use serde::{Deserialize, Serialize};

/// One attachment: which pod, which interface, which RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `podmap/<major>.<minor>`.
    pub schema: String,
    /// The boot of the kernel in which it was written; an entry of another boot is stale.
    pub boot_id: String,
    /// Who wrote it.
    pub writer: EntryWriter,
    /// When, by RFC 3339.
    pub created_at: String,
    /// The pod, where the runtime told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The container and its namespace.
    pub container: ContainerRef,
    /// The interface.
    pub network: NetworkAttachment,
    /// The RDMA device.
    pub rdma: RdmaInfo,
}

/// Who wrote an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryWriter {
    /// The plugin.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A container and its network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRef {
    /// The container's ID: for Kubernetes the sandbox's.
    pub sandbox_id: String,
    /// The path of its namespace.
    pub netns_path: PathBuf,
    /// The namespace's inode.
    pub netns_ino: u64,
    /// The namespace's device.
    pub netns_dev: u64,
    /// What tells it from a later namespace with the same inode; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns_cookie: Option<u64>,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAttachment {
    /// The network's name.
    pub name: String,
    /// The plugin that made the interface.
    pub cni_type: String,
    /// The interface's name in the pod.
    pub ifname: String,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its addresses with their prefix lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Its VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
}

/// How a pod has its RDMA device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// Not at all.
    #[default]
    None,
    /// The device is the node's; the pod's address is a GID of it.
    Shared,
    /// The device is in the pod.
    Exclusive,
}

/// An RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RdmaInfo {
    /// How the pod has it.
    pub mode: AttachMode,
    /// Its name, like `mlx5_5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibdev: Option<String>,
    /// The port, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The device's node GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// Its character devices below `/dev/infiniband`, like `uverbs5`: known where the pod has the device to itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub char_devices: Vec<String>,
    /// Its PCI function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<PciAddress>,
    /// The PF's PCI function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pf_pci: Option<PciAddress>,
    /// The VF's number on its PF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_index: Option<u32>,
    /// The name the interface has on the node when it is not in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_netdev: Option<String>,
    /// The interface of the node that the pod's sits on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// The pod's addresses in the device's GID table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gids: Vec<GidInfo>,
}

/// An entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidInfo {
    /// Its index.
    pub index: u32,
    /// `RoCE v2`, `IB/RoCE v1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The GID, written as an IPv6 address.
    pub gid: String,
}

impl Entry {
    /// The schema this program writes.
    pub const SCHEMA: &'static str = "podmap/1.1";

    /// An entry of `plugin` for an attachment, written now, with nothing known yet.
    pub fn new(plugin: &str, attachment: Attachment) -> Self {
        let Attachment { container_id, ifname } = attachment;
        Self {
            schema: Self::SCHEMA.into(),
            boot_id: String::new(),
            writer: EntryWriter { name: plugin.into(), version: env!("CARGO_PKG_VERSION").into() },
            created_at: utc::now(),
            pod: None,
            container: ContainerRef { sandbox_id: container_id.to_string(), ..ContainerRef::default() },
            network: NetworkAttachment {
                cni_type: plugin.into(),
                ifname: ifname.to_string(),
                ..NetworkAttachment::default()
            },
            rdma: RdmaInfo::default(),
        }
    }
    /// Reads an entry's file. Keys that this program does not know are ignored.
    ///
    /// # Errors
    /// What is wrong with it: it is no entry, or one of a newer major version.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if entry.schema.starts_with("podmap/1.") {
            return Ok(entry);
        }
        Err(format!("schema is {:?}, expected podmap/1.x", entry.schema))
    }
}
