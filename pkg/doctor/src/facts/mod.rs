//! The facts of a node, read once.

pub(crate) mod acs;
pub(crate) mod cni;
pub(crate) mod devices;
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

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use rdma::NetnsMode;
use serde::Serialize;

use crate::host_root::{HostRoot, Unexamined};

/// What is to be looked at.
#[derive(Debug, Clone)]
pub struct DoctorOptions {
    /// The node's root directory.
    pub root: PathBuf,
    /// Where the plugins keep their state, as the node calls it.
    pub state_dir: PathBuf,
    /// Where the CNI plugins are, as the node calls it.
    pub cni_bin: PathBuf,
    /// The names under which our plugins are installed.
    pub plugin_names: Vec<&'static str>,
    /// What the clean-up would take back, or why nobody knows.
    pub leftovers: Result<Vec<StaleResource>, String>,
    /// What the node file asks for, if there is one, or why nobody knows.
    pub wanted: Result<Option<DesiredState>, String>,
}

/// Something that died without a DEL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleResource {
    /// What it is: a journal, a VF, an address.
    pub what: String,
    /// Which.
    pub object: String,
    /// Whose it was.
    pub attachment: Option<String>,
    /// Why it is one.
    pub evidence: String,
    /// Whether the clean-up would take it back. If not, it is only told of.
    pub stale: bool,
}

/// What the node file asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DesiredState {
    /// The file.
    pub file: String,
    /// Why it cannot be understood.
    pub problem: Option<String>,
    /// The RDMA mode.
    pub mode: Option<NetnsMode>,
    /// VFs, for each PF that it means.
    pub vfs: Vec<DesiredVfs>,
    /// What it says of PFs that the node does not have.
    pub unmatched: Vec<String>,
}

/// How many VFs a PF is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredVfs {
    /// The PF's PCI address.
    pub pf: String,
    /// How many.
    pub count: u32,
}

/// The facts of a node.
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
    pub(crate) unexamined: Vec<Unexamined>,
}

/// Who looked, and how.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExaminationScope {
    /// Whether by root.
    pub(crate) superuser: bool,
    /// Whether the root directory is that of the running kernel.
    pub(crate) this_machine: bool,
    /// Whether the calling thread is in the node's network namespace; not known without the right to see it.
    pub(crate) nodes_netns: Option<bool>,
}

impl NodeFacts {
    /// Looks at a node. Nothing is changed, and nothing fails: what cannot be seen is told of in the facts.
    pub fn read(asked: &DoctorOptions) -> Self {
        let tree = HostRoot::at(&asked.root);
        let look = ExaminationScope::at(&tree);
        let mut answers = netlink::NetlinkFacts::query(&tree, &look);
        let kernel = kernel::KernelFacts::read(&tree);
        let links = links::read(&tree, &answers);
        let (functions, gpus) = functions::read(&tree);
        let leftovers = asked.leftovers.clone().unwrap_or_else(|why| {
            tree.note_unexamined("what died without a DEL", why);
            Vec::new()
        });
        let wanted = asked.wanted.clone().unwrap_or_else(|why| {
            tree.note_unexamined("what the node file asks for", why);
            None
        });
        Self {
            mode: mode::ModeFacts::read(&tree, &kernel, answers.mode.take()),
            devices: devices::read(&tree, &functions, &answers),
            nodes: nodes::DeviceNodes::read(&tree),
            limits: limits::read(&tree),
            cni: cni::CniFacts::read(&tree, &asked.cni_bin, &asked.plugin_names),
            pools: pools::PoolFacts::read(&tree, &asked.state_dir),
            kubelet: kubelet::KubeletFacts::read(&tree),
            pod_map: pod_map::PodMapFacts::read(&tree, &asked.state_dir),
            wanted,
            look,
            kernel,
            functions,
            gpus,
            links,
            leftovers,
            unexamined: tree.into_unexamined(),
        }
    }

    /// What could not be looked at.
    pub fn unexamined(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unexamined.iter().map(|one| (one.what.as_str(), one.why.as_str()))
    }

    pub(crate) fn link(&self, name: &str) -> Option<&links::LinkFacts> {
        self.links.iter().find(|link| link.name == name)
    }

    pub(crate) fn function(&self, address: &str) -> Option<&functions::FunctionFacts> {
        self.functions.iter().find(|function| function.address == address)
    }

    /// Whether the device is a VF's.
    pub(crate) fn is_vf(&self, device: &devices::DeviceFacts) -> bool {
        let function = device.function.as_deref().and_then(|address| self.function(address));
        function.is_some_and(|function| function.pf.is_some())
    }
}

impl ExaminationScope {
    fn at(tree: &HostRoot) -> Self {
        let boot = bootid::FILE;
        let own = HostRoot::at(Path::new("/")).text(boot).into_option();
        let this_machine = own.is_some() && own == tree.text(boot).into_option();
        Self { superuser: geteuid().is_root(), this_machine, nodes_netns: nodes_netns(tree, this_machine) }
    }

    /// Whether the kernel's answers by netlink are about the node that the tree shows.
    pub(crate) fn can_query_netlink(&self) -> bool {
        self.this_machine && self.nodes_netns != Some(false)
    }
}

/// Compares the first process's network namespace with ours. Only root may see the first's.
fn nodes_netns(tree: &HostRoot, this_machine: bool) -> Option<bool> {
    if !this_machine {
        return None;
    }
    let first = tree.path("proc/1/ns/net");
    let first = match std::fs::read_link(&first) {
        Ok(first) => first,
        Err(error) => {
            tree.note_unexamined(
                format!("whether this is the node's network namespace ({})", tree.shown(&first)),
                error,
            );
            return None;
        }
    };
    let own = std::fs::read_link("/proc/thread-self/ns/net").ok()?;
    Some(first == own)
}
