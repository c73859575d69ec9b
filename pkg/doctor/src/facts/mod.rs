//! The facts about a node, read once.

pub(crate) mod acs;
pub(crate) mod cni;
pub(crate) mod devices;
mod examination_scope;
pub(crate) mod functions;
pub(crate) mod kernel;
pub(crate) mod kubelet;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod mode;
pub(crate) mod netlink;
pub(crate) mod nodes;
pub(crate) mod pod_map;
pub(crate) mod pools;

use std::path::PathBuf;

use rdma::NetnsMode;
use serde::Serialize;

pub(crate) use examination_scope::ExaminationScope;

use crate::host_root::{HostRoot, Unexamined};

/// Parameters of an examination.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// The root directory of the node: `/`, or where the host's root is mounted.
    pub root: PathBuf,
    /// The state directory, as a path on the node: `/run/silkrail`.
    pub state_dir: PathBuf,
    /// The directory of the CNI plugins, as a path on the node: `/opt/cni/bin`.
    pub cni_bin: PathBuf,
    /// The names under which the plugins of Silkrail are installed.
    pub plugin_names: Vec<&'static str>,
    /// The findings of `silkrail gc`, or the reason why they are unknown.
    pub leftovers: Result<Vec<StaleResource>, String>,
    /// The contents of the node file, `None` without a node file, or the reason why they are unknown.
    pub wanted: Result<Option<DesiredState>, String>,
    /// The resources that silkraild offers to the kubelet, or the reason why they are unknown.
    pub resources: Result<ResourceFacts, String>,
}

/// The resources that silkraild offers to the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFacts {
    /// The resources of the file.
    pub offered: Vec<OfferedResource>,
    /// What is invalid in the file.
    pub invalid: Vec<InvalidResource>,
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

/// The facts about a node.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    pub(crate) look: ExaminationScope,
    pub(crate) kernel: kernel::KernelFacts,
    pub(crate) mode: mode::ModeFacts,
    pub(crate) functions: Vec<functions::FunctionFacts>,
    pub(crate) gpus: Vec<functions::Gpu>,
    pub(crate) devices: Vec<devices::DeviceFacts>,
    pub(crate) links: Vec<links::LinkFacts>,
    pub(crate) nodes: nodes::DeviceNodes,
    pub(crate) limits: Vec<limits::MemlockLimit>,
    pub(crate) cni: cni::CniFacts,
    pub(crate) pools: pools::PoolFacts,
    pub(crate) kubelet: kubelet::KubeletFacts,
    pub(crate) pod_map: pod_map::PodMapFacts,
    pub(crate) leftovers: Vec<StaleResource>,
    pub(crate) wanted: Option<DesiredState>,
    pub(crate) resources: ResourceFacts,
    pub(crate) unexamined: Vec<Unexamined>,
}

impl NodeFacts {
    /// Reads the state of a node. Changes nothing and never fails: what cannot be read is listed in the facts.
    pub fn read(options: &DoctorOptions) -> Self {
        let tree = HostRoot::at(&options.root);
        let look = ExaminationScope::at(&tree);
        let mut netlink = netlink::NetlinkFacts::query(&tree, &look);
        let kernel = kernel::KernelFacts::read(&tree);
        let links = links::read(&tree, &netlink);
        let (functions, gpus) = functions::read(&tree);
        let leftovers = options.leftovers.clone().unwrap_or_else(|why| {
            tree.note_unexamined("stale resources", why);
            Vec::new()
        });
        let wanted = options.wanted.clone().unwrap_or_else(|why| {
            tree.note_unexamined("the node file", why);
            None
        });
        let resources = options.resources.clone().unwrap_or_else(|why| {
            tree.note_unexamined("the devices for the kubelet", why);
            ResourceFacts::default()
        });
        resources.unknown.iter().for_each(|why| tree.note_unexamined("the devices for the kubelet", why));
        Self {
            mode: mode::ModeFacts::read(&tree, &kernel, netlink.mode.take()),
            devices: devices::read(&tree, &functions, &netlink),
            nodes: nodes::DeviceNodes::read(&tree),
            limits: limits::read(&tree),
            cni: cni::CniFacts::read(&tree, &options.cni_bin, &options.plugin_names),
            pools: pools::PoolFacts::read(&tree, &options.state_dir),
            kubelet: kubelet::KubeletFacts::read(&tree),
            pod_map: pod_map::PodMapFacts::read(&tree, &options.state_dir),
            wanted,
            resources,
            look,
            kernel,
            functions,
            gpus,
            links,
            leftovers,
            unexamined: tree.into_unexamined(),
        }
    }

    /// Returns what could not be examined, and the reasons.
    pub fn unexamined(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unexamined.iter().map(|one| (one.what.as_str(), one.why.as_str()))
    }

    pub(crate) fn link(&self, name: &str) -> Option<&links::LinkFacts> {
        self.links.iter().find(|link| link.name == name)
    }

    pub(crate) fn function(&self, address: &str) -> Option<&functions::FunctionFacts> {
        self.functions.iter().find(|function| function.address == address)
    }

    /// Returns whether the device belongs to a VF.
    pub(crate) fn is_vf(&self, device: &devices::DeviceFacts) -> bool {
        let function = device.function.as_deref().and_then(|address| self.function(address));
        function.is_some_and(|function| function.pf.is_some())
    }
}
