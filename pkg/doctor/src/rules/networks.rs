//! The networks of the node: whether a runtime accepts them, and whether their plugins would attach a pod.

use std::collections::BTreeMap;

use crate::{
    Finding, FindingId, Known, NodeFacts,
    facts::{
        networks::{NetworkOfNode, NetworkSource, PluginOfNetwork},
        plugin_status::PluginStatus,
    },
};

const INVALID: FindingId =
    FindingId::new("network-invalid", "A file or a NetworkAttachmentDefinition is not a valid network");
const TWICE: FindingId =
    FindingId::new("network-twice", "Two files of a directory have networks with the same name: one is used");
const MISSING: FindingId = FindingId::new("network-plugin-missing", "A plugin of a network is not installed");
const UNUSABLE: FindingId =
    FindingId::new("network-unusable", "A plugin of Silkrail would refuse to attach a pod to a network");
const CHAIN: FindingId =
    FindingId::new("network-chain-wrong", "The plugins of a network cannot follow one another in this order");
const DEFAULT: FindingId =
    FindingId::new("network-is-default", "The runtime attaches every pod to a network of Silkrail's plugins");
const RESOURCE: FindingId =
    FindingId::new("network-resource-missing", "A network requests a resource that this node does not offer");
const MODULE: FindingId =
    FindingId::new("network-module-missing", "The kernel has no module for the links of a network's plugin");
const DHCP: FindingId = FindingId::new(
    "network-dhcp-daemon",
    "A network uses the IPAM plugin dhcp, and its daemon is not running",
);
const AGENT: FindingId = FindingId::new(
    "network-ipam-agent",
    "A network uses the pools of the cluster, and `silkraild ipam` does not run on this node",
);
const LAYER: FindingId =
    FindingId::new("network-vf-layer", "A network needs VFs of another link layer than those of this node");
const RUNTIME: FindingId =
    FindingId::new("runtime-config-invalid", "The configuration of the container runtime is not valid TOML");

pub(super) const IDS: &[FindingId] =
    &[INVALID, TWICE, MISSING, UNUSABLE, CHAIN, DEFAULT, RESOURCE, MODULE, DHCP, AGENT, LAYER, RUNTIME];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for (file, why) in &facts.runtime.broken {
        let finding =
            RUNTIME.error(file, "the file is not valid TOML: the container runtime does not start with it");
        found.push(finding.because(why).fix("correct the file"));
    }
    for (object, why) in &facts.networks.invalid {
        let finding = INVALID.error(object, "it is not a valid network: no pod can be attached to it");
        found.push(finding.because(why).fix("correct it, or remove it"));
    }
    found.extend(twice(facts));
    found.extend(default_network(facts));
    for network in &facts.networks.networks {
        let mut of_network = Vec::new();
        for plugin in &network.plugins {
            of_network.extend(plugin_missing(facts, network, plugin));
            of_network.extend(unusable(facts, network, plugin));
            of_network.extend(module_missing(facts, network, plugin));
            of_network.extend(ipam_daemon(facts, network, plugin));
        }
        of_network.extend(chain(network));
        of_network.extend(resource(facts, network));
        of_network.extend(layer(facts, network));
        found.extend(of_network);
    }
}

impl NetworkOfNode {
    pub(super) fn object(&self) -> String {
        format!("network {} ({})", self.name, self.source.text())
    }

    /// Returns the plugins with their names without the prefix `silkrail-`, if they are those of Silkrail.
    pub(super) fn kinds_of_ours(&self) -> impl Iterator<Item = (Option<&str>, &PluginOfNetwork)> {
        self.plugins.iter().map(|plugin| (plugin.kind_of_ours(), plugin))
    }
}

impl PluginOfNetwork {
    fn kind_of_ours(&self) -> Option<&str> {
        let kind = self.conf.kind.as_str();
        self.ours.then(|| kind.strip_prefix("silkrail-").unwrap_or(kind))
    }
}

/// A runtime and Multus use the first file that has the name.
fn twice(facts: &NodeFacts) -> Vec<Finding> {
    let mut by_name: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for network in &facts.networks.networks {
        let is_of_runtime = match &network.source {
            NetworkSource::Runtime(_) => true,
            NetworkSource::Multus(_) => false,
            NetworkSource::Definition(_) => continue,
        };
        by_name.entry((is_of_runtime, &network.name)).or_default().push(network.source.text());
    }
    let several = by_name.into_iter().filter(|(_, files)| files.len() > 1);
    let finding = |((_, name), files): ((bool, &str), Vec<&str>)| {
        let finding = TWICE.error(
            format!("network {name}"),
            "several files have a network of this name, and one of them is used",
        );
        finding
            .because_all(files.iter().map(|file| (*file).to_owned()))
            .fix("rename or remove all but one of them")
    };
    several.map(finding).collect()
}

/// The runtime attaches each pod to the network of its first file. That of Silkrail's plugins has no route to the cluster.
fn default_network(facts: &NodeFacts) -> Option<Finding> {
    let is_of_runtime = |network: &&NetworkOfNode| matches!(network.source, NetworkSource::Runtime(_));
    let first = facts.networks.networks.iter().find(is_of_runtime)?;
    if !facts.kubelet.is_there || !first.plugins.first()?.ours {
        return None;
    }
    let finding = DEFAULT.warning(
        first.object(),
        "it is the first file of the runtime's directory: every pod of this node is attached to this network",
    );
    Some(finding.because(format!("{}: files are used in the order of their names", facts.networks.dir)).fix(
        "let the file of the cluster's network, or of Multus, have the first name; networks for Multus belong into \
         NetworkAttachmentDefinitions or /etc/cni/multus/net.d",
    ))
}

fn plugin_missing<'f>(
    facts: &'f NodeFacts,
    network: &'f NetworkOfNode,
    plugin: &'f PluginOfNetwork,
) -> impl Iterator<Item = Finding> {
    let main = plugin.file.is_absent().then_some(("type", plugin.conf.kind.as_str()));
    // The STATUS of a plugin of Silkrail reports a missing IPAM plugin.
    let has_no_ipam = plugin.ipam_file.as_ref().is_some_and(Known::is_absent) && plugin.status.is_none();
    let ipam = if has_no_ipam { plugin.conf.ipam.as_deref().map(|kind| ("ipam.type", kind)) } else { None };
    main.into_iter().chain(ipam).map(|(key, kind)| {
        let dirs: Vec<_> = facts.cni.dirs.iter().map(|dir| dir.display().to_string()).collect();
        let finding = MISSING.error(network.object(), format!("{key}: the plugin {kind} is not installed"));
        finding
            .because(format!("there is no file {kind} in {}", dirs.join(" or ")))
            .fix("correct the type, or install the plugin; silkrail install --help lists those of Silkrail")
    })
}

fn unusable(facts: &NodeFacts, network: &NetworkOfNode, plugin: &PluginOfNetwork) -> Option<Finding> {
    let Some(PluginStatus::Refused { message, details }) = &plugin.status else { return None };
    // ifacer creates the master when the first pod is attached.
    let master = plugin.conf.text("master");
    let follows_ifacer = network.kinds_of_ours().any(|(kind, _)| kind == Some("ifacer"));
    if follows_ifacer && master.is_some_and(|master| facts.link_called(master).is_none()) {
        return None;
    }
    let kind = &plugin.conf.kind;
    let finding = UNUSABLE
        .error(network.object(), format!("the plugin {kind} would refuse to attach a pod: {message}"));
    let details = Some(details).filter(|details| !details.is_empty()).cloned();
    Some(
        finding
            .because_all(details)
            .fix(format!("correct the network or the node; {kind} checks both again at each ADD")),
    )
}

fn chain(network: &NetworkOfNode) -> Option<Finding> {
    let kinds: Vec<_> = network.kinds_of_ours().collect();
    let at = kinds.iter().position(|(kind, _)| *kind == Some("rdma"))?;
    let (why, fix) = match at.checked_sub(1).and_then(|before| kinds.get(before)) {
        None => ("rdma is the first plugin, and needs the VF of one before it", "put rdma after sriov"),
        Some((Some("macvlan" | "ipvlan" | "ipoib"), _)) => (
            "rdma moves the RDMA device of a VF, and the plugin before it creates a link that shares one",
            "remove rdma, or use sriov instead of the plugin before it",
        ),
        Some((Some("sriov" | "ib-sriov"), before)) if before.conf.is_set("rdmaIsolation") => (
            "sriov moves the RDMA device of the VF already, as rdmaIsolation is set",
            "remove rdma, or rdmaIsolation",
        ),
        Some(_) => return None,
    };
    let order: Vec<_> = network.plugins.iter().map(|plugin| plugin.conf.kind.as_str()).collect();
    let finding = CHAIN.error(network.object(), why);
    Some(finding.because(format!("plugins: {}", order.join(", "))).fix(fix))
}

fn resource(facts: &NodeFacts, network: &NetworkOfNode) -> Option<Finding> {
    let NetworkSource::Definition(_) = network.source else { return None };
    let needs_vf = |(kind, plugin): (Option<&str>, &PluginOfNetwork)| {
        matches!(kind, Some("sriov" | "ib-sriov")) && plugin.conf.text("deviceID").is_none()
    };
    let Some(resource) = &network.resource else {
        if !network.kinds_of_ours().any(needs_vf) {
            return None;
        }
        let finding =
            RESOURCE.error(network.object(), "it needs a VF for each pod, and requests no resource");
        let because = "it has no annotation k8s.v1.cni.cncf.io/resourceName, and no deviceID";
        return Some(
            finding.because(because).fix("add the annotation with the name of a device plugin's resource"),
        );
    };
    let registered = facts.resources.registered.as_ref()?;
    if registered.contains(resource) {
        return None;
    }
    let finding = RESOURCE.warning(
        network.object(),
        format!("this node has no resource {resource}: pods that request it do not run here"),
    );
    let known = if registered.is_empty() { "none".to_owned() } else { registered.join(", ") };
    Some(finding.because(format!("resources of the kubelet: {known}")).fix(
        "correct the annotation k8s.v1.cni.cncf.io/resourceName, or offer the resource: silkrail devices",
    ))
}

/// The kernel modules that create the links of a plugin.
const MODULES: [(&str, &str); 4] =
    [("macvlan", "macvlan"), ("ipvlan", "ipvlan"), ("ipoib", "ib_ipoib"), ("ifacer", "8021q")];

fn module_missing(facts: &NodeFacts, network: &NetworkOfNode, plugin: &PluginOfNetwork) -> Option<Finding> {
    let kind = plugin.kind_of_ours()?;
    let (_, module) = MODULES.into_iter().find(|(plugin, _)| *plugin == kind)?;
    let is_bond = kind == "ifacer" && plugin.conf.value("bond").is_some_and(|bond| bond.is_object());
    let module = if is_bond { "bonding" } else { module };
    if facts.kernel.has_module(module) == Some(true) || !facts.kernel.missing_modules.contains(&module) {
        return None;
    }
    let finding = MODULE.error(
        network.object(),
        format!("{kind} needs the kernel module {module}, which this kernel does not have"),
    );
    let release = facts.kernel.release.get().map_or("", String::as_str);
    Some(finding.because(format!("/lib/modules/{release} does not contain it")).fix(format!(
        "install the package of the kernel that contains {module}, and for a kernel of your own, enable it"
    )))
}

fn ipam_daemon(facts: &NodeFacts, network: &NetworkOfNode, plugin: &PluginOfNetwork) -> Option<Finding> {
    let sockets = &facts.networks.sockets;
    if plugin.conf.ipam.as_deref() == Some("dhcp") && !sockets.dhcp {
        let finding = DHCP.error(network.object(), "its IPAM plugin is dhcp, whose daemon is not running");
        let because = "no process listens on /run/cni/dhcp.sock";
        return Some(finding.because(because).fix("run the daemon on each node: /opt/cni/bin/dhcp daemon"));
    }
    let uses_cluster = plugin.conf.ipam_text("store") == Some("cluster");
    if uses_cluster && plugin.ours && !sockets.ipam_agent {
        let finding = AGENT.error(
            network.object(),
            "it uses the pools of the cluster, and `silkraild ipam` does not run on this node",
        );
        let because = format!("no process listens on {}", sockets.ipam_agent_path);
        return Some(
            finding
                .because(because)
                .fix("deploy conf/silkraild-ipam, and look at the log of its pod on this node"),
        );
    }
    None
}

fn layer(facts: &NodeFacts, network: &NetworkOfNode) -> Option<Finding> {
    let (kind, wanted) = network.kinds_of_ours().find_map(|(kind, _)| match kind {
        Some("sriov") => Some(("sriov", "Ethernet")),
        Some("ib-sriov") => Some(("ib-sriov", "InfiniBand")),
        _ => None,
    })?;
    let of_vf = |device: &&crate::facts::devices::DeviceFacts| facts.is_vf(device);
    let vfs: Vec<_> = facts.devices.iter().filter(of_vf).collect();
    let layers: Vec<_> =
        vfs.iter().flat_map(|device| &device.ports).filter_map(|port| port.layer.get()).collect();
    if layers.is_empty() || layers.iter().any(|layer| *layer == wanted) {
        return None;
    }
    let finding = LAYER.error(
        network.object(),
        format!("{kind} needs VFs with the link layer {wanted}, and this node has none"),
    );
    let because = format!("{}: {}", vfs[0].name, layers[0]);
    Some(finding.because(because).fix("use ib-sriov for InfiniBand, and sriov for Ethernet"))
}

#[cfg(test)]
mod tests;
