//! Parameters of an examination, and what other commands know about the node.

use std::path::PathBuf;

use dcb::WantedDcb;
use rdma::NetnsMode;
use serde::Serialize;

/// Parameters of an examination.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// The root directory of the node: `/`, or where the host's root is mounted.
    pub root: PathBuf,
    /// The state directory, as a path on the node: `/run/silkrail`.
    pub state_dir: PathBuf,
    /// The directory of the CNI plugins, as a path on the node; `None` for that of the container runtime.
    pub cni_bin: Option<PathBuf>,
    /// The directory of networks, as a path on the node; `None` for that of the container runtime.
    pub cni_conf: Option<PathBuf>,
    /// NetworkAttachmentDefinitions.
    pub defined_networks: Vec<DefinedNetwork>,
    /// The namespace of the pods for which the policy of the node is applied to networks; `None` for the namespace of each
    /// NetworkAttachmentDefinition.
    pub pod_namespace: Option<String>,
    /// The names under which the plugins of Silkrail are installed.
    pub plugin_names: Vec<&'static str>,
    /// The findings of `silkrail gc`, or the reason why they are unknown.
    pub leftovers: Result<Vec<StaleResource>, String>,
    /// The contents of the node file, `None` without a node file, or the reason why they are unknown.
    pub wanted: Result<Option<DesiredState>, String>,
    /// The site file, as a path on the node; `None` for `/etc/silkrail/site.yaml`, which may be missing.
    pub site: Option<PathBuf>,
    /// The name of the node, which patterns of the site file are compared with; `None` for the hostname.
    pub node_name: Option<String>,
    /// The resources that silkraild offers to the kubelet, or the reason why they are unknown.
    pub resources: Result<ResourceFacts, String>,
}

/// A NetworkAttachmentDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedNetwork {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.config`; empty if a file of the node has the configuration.
    pub config: String,
    /// The annotation `k8s.v1.cni.cncf.io/resourceName`.
    pub resource: Option<String>,
}

/// The resources that silkraild offers to the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFacts {
    /// The resources of the file.
    pub offered: Vec<OfferedResource>,
    /// What is invalid in the file.
    pub invalid: Vec<InvalidResource>,
    /// The resources of all device plugins of the node; `None` if that is unknown.
    pub registered: Option<Vec<String>>,
    /// What could not be read.
    pub unknown: Vec<String>,
}

/// A resource of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedResource {
    /// Its name.
    pub name: String,
    /// Whether silkraild serves it; `None` if there is no kubelet.
    pub is_served: Option<bool>,
    /// The number of healthy devices.
    pub healthy: usize,
    /// The others.
    pub unhealthy: Vec<UnhealthyDevice>,
}

/// A device that the kubelet cannot give to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnhealthyDevice {
    /// Its ID.
    pub id: String,
    /// The reason that silkraild tells.
    pub reason: String,
}

/// Something that is invalid in a file with resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvalidResource {
    /// The file.
    pub file: String,
    /// What is wrong, with line and key.
    pub what: String,
}

/// A resource that an attachment left behind: its pod is gone, and no DEL released it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleResource {
    /// The kind of resource: `journal`, `VF`, `address`.
    pub what: String,
    /// The name of the resource: a file, a PCI address, an IP address.
    pub object: String,
    /// The attachment that owned it.
    pub attachment: Option<String>,
    /// The reason why it is considered stale.
    pub evidence: String,
    /// Whether `silkrail gc --yes` would release it. If not, it is only reported.
    pub stale: bool,
}

/// The state that the node file requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredState {
    /// The path of the node file.
    pub file: String,
    /// The error if the file is invalid.
    pub problem: Option<String>,
    /// The requested RDMA mode.
    pub mode: Option<NetnsMode>,
    /// The number of VFs of each matching PF.
    pub vfs: Vec<DesiredVfs>,
    /// The traffic class that pods are told, `trafficClass` below `devicePlugin`.
    pub traffic_class: Option<u8>,
    /// The DCB settings of PFs.
    pub dcb: Vec<DesiredDcb>,
    /// The matches that no PF of the node satisfies.
    pub unmatched: Vec<String>,
}

/// The requested number of VFs of a PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredVfs {
    /// The PF's PCI address.
    pub pf: String,
    /// The number of VFs.
    pub count: u32,
}

/// The requested DCB settings of a PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredDcb {
    /// The name of the PF's link.
    pub link: String,
    /// The settings.
    pub settings: WantedDcb,
}
