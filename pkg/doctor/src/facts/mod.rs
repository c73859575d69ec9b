//! The facts about a node, read once.

pub(crate) mod acs;
pub(crate) mod cni;
pub(crate) mod devices;
mod examination_scope;
pub(crate) mod file_systems;
pub(crate) mod filter_rules;
pub(crate) mod functions;
pub(crate) mod interrupts;
mod iptables_rules;
pub(crate) mod kernel;
pub(crate) mod kernel_limits;
pub(crate) mod kernel_messages;
pub(crate) mod kubelet;
pub(crate) mod limits;
pub(crate) mod link_settings;
pub(crate) mod links;
pub(crate) mod mode;
pub(crate) mod multus;
pub(crate) mod netlink;
pub(crate) mod networks;
mod nft_rules;
pub(crate) mod nodes;
pub(crate) mod packet_filter;
pub(crate) mod pci_express;
pub(crate) mod permissions;
pub(crate) mod plugin_status;
pub(crate) mod pod_map;
pub(crate) mod policy;
pub(crate) mod pools;
pub(crate) mod runtime;
pub(crate) mod services;
pub(crate) mod site;

use ::site::{GpuRole, PortIdentity, PortRole};
use serde::Serialize;

pub(crate) use examination_scope::ExaminationScope;

use crate::{
    DesiredState, DoctorOptions, ResourceFacts, StaleResource,
    host_root::{HostRoot, Unexamined},
};

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
    pub(crate) link_settings: Vec<::link_settings::LinkSettings>,
    pub(crate) dropped_ports: Vec<packet_filter::DroppedPort>,
    pub(crate) nodes: nodes::DeviceNodes,
    pub(crate) limits: Vec<limits::MemlockLimit>,
    pub(crate) kernel_limits: Vec<kernel_limits::KernelLimit>,
    pub(crate) kernel_messages: Vec<kernel_messages::KernelMessages>,
    pub(crate) file_systems: Vec<file_systems::FileSystem>,
    pub(crate) permissions: permissions::PermissionFacts,
    pub(crate) services: services::ServiceFacts,
    pub(crate) cni: cni::CniFacts,
    pub(crate) networks: networks::NetworkFacts,
    pub(crate) runtime: runtime::RuntimeFacts,
    pub(crate) multus: Vec<multus::MultusDaemon>,
    pub(crate) policy: policy::PolicyFacts,
    pub(crate) pools: pools::PoolFacts,
    pub(crate) kubelet: kubelet::KubeletFacts,
    pub(crate) pod_map: pod_map::PodMapFacts,
    pub(crate) leftovers: Vec<StaleResource>,
    pub(crate) wanted: Option<DesiredState>,
    pub(crate) site: site::SiteFacts,
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
        let node = options.node_name.as_ref().or(kernel.hostname.as_ref()).map_or("", String::as_str);
        let site = site::SiteFacts::read(&tree, options.site.as_deref(), node);
        let links = links::read(&tree, &netlink);
        let (functions, gpus) = functions::read(&tree);
        let devices = devices::read(&tree, &functions, &netlink);
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
        let runtime = runtime::RuntimeFacts::read(&tree);
        let cni_dirs = runtime.plugin_dirs(options.cni_bin.as_deref());
        let cni = cni::CniFacts::read(&tree, cni_dirs, &options.plugin_names);
        let networks = networks::NetworkFacts::read(
            &tree,
            options,
            &runtime.network_dir(options.cni_conf.as_deref()),
            &cni,
            &look,
        );
        Self {
            mode: mode::ModeFacts::read(&tree, &kernel, netlink.mode.take()),
            link_settings: link_settings::read(&tree, &look, &devices, &functions),
            devices,
            dropped_ports: packet_filter::read(&tree, &look, &kernel),
            nodes: nodes::DeviceNodes::read(&tree),
            limits: limits::read(&tree),
            kernel_limits: kernel_limits::read(&tree),
            kernel_messages: kernel_messages::read(&tree),
            file_systems: file_systems::read(&tree, &options.state_dir),
            services: services::ServiceFacts::read(&tree),
            policy: policy::PolicyFacts::read(&tree),
            pools: pools::PoolFacts::read(&tree, &options.state_dir, &links, &networks),
            permissions: permissions::PermissionFacts::read(&tree, &cni, &networks, &options.state_dir),
            cni,
            networks,
            multus: multus::read(&tree, &options.state_dir),
            runtime,
            kubelet: kubelet::KubeletFacts::read(&tree),
            pod_map: pod_map::PodMapFacts::read(&tree, &options.state_dir),
            wanted,
            site,
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

    /// Returns the link that has this name or altname.
    pub(crate) fn link_called(&self, name: &str) -> Option<&links::LinkFacts> {
        let is_called =
            |link: &&links::LinkFacts| link.name == name || link.altnames.iter().any(|alt| alt == name);
        self.links.iter().find(is_called)
    }

    pub(crate) fn function(&self, address: &str) -> Option<&functions::FunctionFacts> {
        self.functions.iter().find(|function| function.address == address)
    }

    /// Returns the role of a port in the site file. VFs have none: they are as their PF is.
    pub(crate) fn role(&self, device: &devices::DeviceFacts, port: &devices::PortFacts) -> Option<&PortRole> {
        let function = device.function.as_deref().and_then(|address| self.function(address));
        if function.is_some_and(|function| function.pf.is_some()) {
            return None;
        }
        let identity = PortIdentity {
            link: port.link.as_deref(),
            rdma: Some(&device.name),
            port: Some(port.number),
            ..site::function_identity(function)
        };
        self.site.content.role_of(&self.site.node, &identity)
    }

    /// Returns the role of the port with a link.
    pub(crate) fn role_of_link(&self, link: &str) -> Option<&PortRole> {
        self.ports().find(|(_, port)| port.link.as_deref() == Some(link)).and_then(|(d, p)| self.role(d, p))
    }

    /// Returns the role of the first port of a function that has one.
    pub(crate) fn role_of_function(&self, address: &str) -> Option<&PortRole> {
        let of_function = self.ports().filter(|(device, _)| device.function.as_deref() == Some(address));
        of_function.into_iter().find_map(|(device, port)| self.role(device, port))
    }

    /// Returns the expectations of a GPU in the site file: the first that select it.
    pub(crate) fn gpu_role(&self, gpu: &functions::Gpu) -> Option<&GpuRole> {
        let (vendor, device) = gpu.model.split_once(':').unwrap_or_default();
        let mut roles = self.site.content.gpus_of(&self.site.node);
        roles.find(|role| role.matches.matches(&gpu.address, vendor, device))
    }

    /// Returns all ports of all devices.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (&devices::DeviceFacts, &devices::PortFacts)> {
        self.devices.iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }

    /// Returns whether the device belongs to a VF.
    pub(crate) fn is_vf(&self, device: &devices::DeviceFacts) -> bool {
        let function = device.function.as_deref().and_then(|address| self.function(address));
        function.is_some_and(|function| function.pf.is_some())
    }
}
