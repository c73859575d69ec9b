//! The networks of the node: the files that the container runtime and Multus read, and NetworkAttachmentDefinitions.

use std::path::{Path, PathBuf};

use cni_networks::{Network, NetworkPlugin, is_network_file};
use serde::Serialize;

use super::{
    ExaminationScope,
    cni::CniFacts,
    kubelet::{SocketState, socket_state},
    plugin_status::{PluginStatus, StatusCall},
};
use crate::{DefinedNetwork, DoctorOptions, Known, host_root::HostRoot};

/// The directory of networks to which a NetworkAttachmentDefinition without a configuration refers.
const MULTUS_DIR: &str = "/etc/cni/multus/net.d";
/// The socket of the daemon of the IPAM plugin `dhcp`.
const DHCP_SOCKET: &str = "/run/cni/dhcp.sock";

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkFacts {
    /// The directory of the container runtime.
    pub(crate) dir: String,
    pub(crate) networks: Vec<NetworkOfNode>,
    /// Files and definitions that cannot be used, with the reason.
    pub(crate) invalid: Vec<(String, String)>,
    pub(crate) sockets: IpamSockets,
}

/// The sockets of the processes that IPAM plugins ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IpamSockets {
    /// Whether the daemon of the plugin `dhcp` listens.
    pub(crate) dhcp: bool,
    /// Whether `silkraild ipam` listens.
    pub(crate) ipam_agent: bool,
    pub(crate) ipam_agent_path: String,
}

/// A network that pods of this node can be attached to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkOfNode {
    pub(crate) source: NetworkSource,
    pub(crate) name: String,
    pub(crate) plugins: Vec<PluginOfNetwork>,
    /// The resource that a NetworkAttachmentDefinition requests: `k8s.v1.cni.cncf.io/resourceName`.
    pub(crate) resource: Option<String>,
}

/// Where a network comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NetworkSource {
    /// A file of the container runtime's directory.
    Runtime(String),
    /// A file of Multus's directory.
    Multus(String),
    /// A NetworkAttachmentDefinition: `namespace/name`.
    Definition(String),
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginOfNetwork {
    #[serde(serialize_with = "kind_of")]
    pub(crate) conf: NetworkPlugin,
    /// Where the executable is; absent if it is in none of the directories.
    pub(crate) file: Known<String>,
    /// Where the IPAM plugin is; `None` without IPAM.
    pub(crate) ipam_file: Option<Known<String>>,
    /// Whether the executable is a plugin of Silkrail.
    pub(crate) ours: bool,
    /// What the plugin reports about itself; `None` if it was not called.
    pub(crate) status: Option<PluginStatus>,
}

/// A configuration may contain secrets, so a bundle only has the plugin's name.
fn kind_of<S: serde::Serializer>(plugin: &NetworkPlugin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&plugin.kind)
}

impl NetworkSource {
    /// Returns the path, or the name of the object.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Runtime(text) | Self::Multus(text) | Self::Definition(text) => text,
        }
    }

    /// Returns the namespace of a NetworkAttachmentDefinition.
    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Definition(name) => name.split_once('/').map(|(namespace, _)| namespace),
            Self::Runtime(_) | Self::Multus(_) => None,
        }
    }
}

impl NetworkFacts {
    pub(crate) fn read(
        tree: &HostRoot,
        options: &DoctorOptions,
        dir: &Path,
        cni: &CniFacts,
        scope: &ExaminationScope,
    ) -> Self {
        let mut facts = Self { dir: dir.display().to_string(), ..Self::default() };
        let mut reader = NetworkReader { tree, cni, facts: &mut facts };
        reader.read_directory(dir, NetworkSource::Runtime);
        if dir != Path::new(MULTUS_DIR) {
            reader.read_directory(Path::new(MULTUS_DIR), NetworkSource::Multus);
        }
        options.defined_networks.iter().for_each(|definition| reader.read_definition(definition));
        facts.sockets = IpamSockets::read(tree, &options.state_dir, &facts);
        facts.call_plugins(tree, options, cni, scope);
        facts
    }

    /// Calls the STATUS of Silkrail's plugins. Those of other projects are not called.
    fn call_plugins(
        &mut self,
        tree: &HostRoot,
        options: &DoctorOptions,
        cni: &CniFacts,
        scope: &ExaminationScope,
    ) {
        let plugins = self.networks.iter_mut().flat_map(|NetworkOfNode { source, plugins, .. }| {
            let namespace = options.pod_namespace.as_deref().or(source.namespace());
            plugins.iter_mut().map(move |plugin| (namespace, plugin))
        });
        let mut ours = plugins.filter(|(_, plugin)| plugin.ours).peekable();
        if ours.peek().is_none() {
            return;
        }
        if let Some(why) = scope.reason_not_to_call_plugins(tree) {
            tree.note_unexamined("whether pods can be attached to the networks", why);
            return;
        }
        for (pod_namespace, plugin) in ours {
            let Known::Value(file) = &plugin.file else { continue };
            let call = StatusCall { program: Path::new(file), search_path: &cni.dirs, pod_namespace };
            match call.run(&plugin.conf) {
                Ok(status) => plugin.status = Some(status),
                Err(why) => tree.note_unexamined(format!("STATUS of {file}"), why),
            }
        }
    }

    /// Returns the plugins of all networks, with their networks.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&NetworkOfNode, &PluginOfNetwork)> {
        self.networks.iter().flat_map(|network| network.plugins.iter().map(move |plugin| (network, plugin)))
    }
}

impl IpamSockets {
    /// Looks for those that a network needs.
    fn read(tree: &HostRoot, state_dir: &Path, networks: &NetworkFacts) -> Self {
        let listens = |path: &str| socket_state(tree, path) == SocketState::Listens;
        let is_used =
            |is_user: fn(&NetworkPlugin) -> bool| networks.plugins().any(|(_, plugin)| is_user(&plugin.conf));
        let uses_dhcp = is_used(|plugin| plugin.ipam.as_deref() == Some("dhcp"));
        let uses_cluster = is_used(|plugin| plugin.ipam_text("store") == Some("cluster"));
        let ipam_agent_path = state_dir.join("cluster/socket").display().to_string();
        Self {
            dhcp: uses_dhcp && listens(DHCP_SOCKET),
            ipam_agent: uses_cluster && listens(&ipam_agent_path),
            ipam_agent_path,
        }
    }
}

struct NetworkReader<'a> {
    tree: &'a HostRoot,
    cni: &'a CniFacts,
    facts: &'a mut NetworkFacts,
}

impl NetworkReader<'_> {
    fn read_directory(&mut self, dir: &Path, source: fn(String) -> NetworkSource) {
        let names = self.tree.names(dir);
        for name in names.items().iter().filter(|name| is_network_file(name)) {
            let path = dir.join(name);
            let Known::Value(text) = self.tree.text(&path) else { continue };
            let path = path.display().to_string();
            match Network::from_file(name, &text) {
                Ok(network) => self.add(source(path), network, None),
                Err(why) => self.facts.invalid.push((path, why.to_string())),
            }
        }
    }

    fn read_definition(&mut self, definition: &DefinedNetwork) {
        let DefinedNetwork { namespace, name, config, resource } = definition;
        let object = format!("{namespace}/{name}");
        // Without a configuration, Multus looks for a file with that network.
        if config.trim().is_empty() {
            let is_there = self.facts.networks.iter().any(|network| network.name == *name);
            if !is_there {
                let why = format!("spec.config is empty, and no file of {MULTUS_DIR} has a network {name}");
                self.facts.invalid.push((object, why));
            }
            return;
        }
        match Network::from_definition(name, config) {
            Ok(network) => self.add(NetworkSource::Definition(object), network, resource.clone()),
            Err(why) => self.facts.invalid.push((object, format!("spec.config: {why}"))),
        }
    }

    fn add(&mut self, source: NetworkSource, network: Network, resource: Option<String>) {
        let plugins = network.plugins.into_iter().map(|conf| self.plugin(conf)).collect();
        self.facts.networks.push(NetworkOfNode { source, name: network.name, plugins, resource });
    }

    fn plugin(&self, conf: NetworkPlugin) -> PluginOfNetwork {
        let file = self.find(&conf.kind);
        let ours = file.get().is_some_and(|file| self.cni.is_ours(file));
        let ipam_file = conf.ipam.as_deref().map(|kind| self.find(kind));
        PluginOfNetwork { conf, file, ipam_file, ours, status: None }
    }

    /// Returns the first executable of that name in the directories.
    fn find(&self, name: &str) -> Known<String> {
        // The runtime refuses such a name, too.
        if name.contains('/') {
            return Known::Absent;
        }
        let paths = self.cni.dirs.iter().map(|dir| dir.join(name));
        let found: Option<PathBuf> = paths.clone().find(|path| self.tree.is_there(path));
        found.map_or(Known::Absent, |path| Known::Value(path.display().to_string()))
    }
}
