//! The entry of one attachment.

use std::path::PathBuf;

use identifiers::{Attachment, PciAddress};
use serde::{Deserialize, Serialize};

/// The entry of one attachment: its pod, its interface and its RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The version of the schema: `podmap/<major>.<minor>`.
    pub schema: String,
    /// The boot ID of the kernel that it was written under; an entry of another boot is stale.
    pub boot_id: String,
    /// The program that wrote the entry.
    pub writer: EntryWriter,
    /// The time at which the entry was written, in the format of RFC 3339.
    pub created_at: String,
    /// The pod, if the runtime passed it in `CNI_ARGS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The container and its namespace.
    pub container: ContainerRef,
    /// The interface in the pod.
    pub network: NetworkAttachment,
    /// The RDMA device.
    pub rdma: RdmaInfo,
}

/// The program that wrote an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryWriter {
    /// The name of the plugin, for example `sriov`.
    pub name: String,
    /// The version of the plugin.
    pub version: String,
}

/// A Kubernetes pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRef {
    /// The Kubernetes namespace: `K8S_POD_NAMESPACE`.
    pub namespace: String,
    /// The name: `K8S_POD_NAME`.
    pub name: String,
    /// The UID: `K8S_POD_UID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A container and its network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRef {
    /// The container ID; in Kubernetes the ID of the pod's sandbox.
    pub sandbox_id: String,
    /// The path of its network namespace, `CNI_NETNS`.
    pub netns_path: PathBuf,
    /// The inode number of the namespace.
    pub netns_ino: u64,
    /// The device number (`st_dev`) of the namespace's file system, nsfs.
    pub netns_dev: u64,
    /// The namespace's cookie (`SO_NETNS_COOKIE`), which the kernel does not reuse as it does inode numbers; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns_cookie: Option<u64>,
}

/// An interface of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAttachment {
    /// The name of the network.
    pub name: String,
    /// The plugin that created the interface.
    pub cni_type: String,
    /// The name of the interface in the pod, for example `net1`.
    pub ifname: String,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its IP addresses with their prefix lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Its VLAN ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
}

/// How an RDMA device is attached to a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttachMode {
    /// The pod has no RDMA device.
    #[default]
    None,
    /// The device stays on the host and is shared; the pod's address is one of its GIDs.
    Shared,
    /// The device is in the pod's network namespace.
    Exclusive,
}

/// The RDMA device of an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RdmaInfo {
    /// How the device is attached.
    pub mode: AttachMode,
    /// The name of the device, for example `mlx5_5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ibdev: Option<String>,
    /// The number of the port, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The device's node GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// Its character devices below `/dev/infiniband`, for example `uverbs5`; only in exclusive mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub char_devices: Vec<String>,
    /// The PCI address of its function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<PciAddress>,
    /// The PCI address of the PF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pf_pci: Option<PciAddress>,
    /// The index of the VF on its PF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_index: Option<u32>,
    /// The name of the interface while it is on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_netdev: Option<String>,
    /// The parent on the host of a macvlan or ipvlan interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// The entries of the device's GID table that belong to the pod's addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gids: Vec<GidInfo>,
}

/// An entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidInfo {
    /// The index in the GID table.
    pub index: u32,
    /// The type, as in sysfs: `RoCE v2` or `IB/RoCE v1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The GID, written as an IPv6 address.
    pub gid: String,
}

/// Returns the entries of a pod's newest sandbox: those of a former one remain if its DEL failed.
pub fn of_pod<'a>(entries: &'a [Entry], uid: &str) -> Vec<&'a Entry> {
    let is_of_pod = |entry: &&Entry| entry.pod.as_ref().and_then(|pod| pod.uid.as_deref()) == Some(uid);
    let mut own: Vec<_> = entries.iter().filter(is_of_pod).collect();
    let newest = own.iter().max_by(|one, two| one.created_at.cmp(&two.created_at));
    if let Some(sandbox) = newest.map(|entry| &entry.container.sandbox_id) {
        own.retain(|entry| entry.container.sandbox_id == *sandbox);
    }
    own
}

impl Entry {
    /// The version of the schema that this program writes.
    pub const SCHEMA: &'static str = "podmap/1.1";

    /// Returns a new entry of `plugin` for an attachment, with the current time and all other fields empty.
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

    /// Parses an entry. Unknown keys are ignored.
    ///
    /// # Errors
    /// If it is not a valid entry, or has another major version.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if entry.schema.starts_with("podmap/1.") {
            return Ok(entry);
        }
        Err(format!("schema is {:?}, expected podmap/1.x", entry.schema))
    }
}
