//! The RDMA ports of a node as it reports them to others, in the order of their PCI addresses.

use std::{fs, net::IpAddr, path::Path};

use ipnetwork::IpNetwork;
use rdma::LinkLayer;
use serde::{Deserialize, Serialize};
use sysfs::Sysfs;

use crate::{
    DeviceName, Error, PortNumber, PortSelector,
    candidate_port::{self, CandidatePort},
    gid_selection,
    port_selection::select,
    sanitized_text::SanitizedText,
};

/// Maximum number of ports that a node reports.
pub const MAX_NODE_PORTS: usize = 64;

/// Maximum number of networks of a port.
const MAX_PORT_NETWORKS: usize = 8;

/// The worst rank of a GID of a rail: without an IP address, a port reaches only its own layer 2 segment.
const LINK_LOCAL_RANK: u8 = 4;

/// A port, as its node reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePort {
    /// The RDMA device, for example `mlx5_0`.
    pub device: DeviceName,
    /// The port of the device.
    pub port: PortNumber,
    /// Whether the link layer is InfiniBand; otherwise it is Ethernet (RoCE).
    #[serde(default)]
    pub infiniband: bool,
    /// The link of the port; `None` for InfiniBand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<SanitizedText>,
    /// The address of the GID that a test would use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The subnets of its addresses, for example `10.0.1.0/24`; for InfiniBand the subnet prefix.
    #[serde(default)]
    pub networks: Vec<SanitizedText>,
    /// The speed in Mb/s; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u64>,
    /// The PCI address or the name of the device's function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<SanitizedText>,
    /// The NUMA node of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Why the port is not usable for a test; `None` if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<SanitizedText>,
}

impl NodePort {
    /// Returns the name, for example `mlx5_0/1`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.device, self.port)
    }

    /// Returns the selector of exactly this port.
    pub fn selector(&self) -> PortSelector {
        PortSelector { device: Some(self.device.clone()), port: Some(self.port), gid_index: None }
    }
}

/// Returns the ports of this node, at most [`MAX_NODE_PORTS`]. VFs without an address are left out: they wait for pods.
///
/// # Errors
/// [`Error::Rdma`], also if this node has no RDMA devices; [`Error::Io`].
pub fn node_ports(sysfs: &Sysfs) -> Result<Vec<NodePort>, Error> {
    let candidates = candidate_port::ports(sysfs)?;
    let mut ports: Vec<NodePort> = candidates.iter().filter_map(|port| describe(sysfs, port)).collect();
    ports.sort_by(|a, b| (&a.pci, natural(&a.device), a.port).cmp(&(&b.pci, natural(&b.device), b.port)));
    ports.truncate(MAX_NODE_PORTS);
    Ok(ports)
}

fn describe(sysfs: &Sysfs, port: &CandidatePort) -> Option<NodePort> {
    let (device, number): (DeviceName, PortNumber) =
        (port.device.parse().ok()?, u64::from(port.number).try_into().ok()?);
    let function = sysfs.root().join(format!("class/infiniband/{device}/device"));
    let selected = select(std::slice::from_ref(port), &PortSelector::default(), None, None);
    let unusable = match &selected {
        Err(error) => Some(error.to_string()),
        Ok(selected) if selected.gid.as_ref().is_some_and(|gid| gid.rank >= LINK_LOCAL_RANK) => {
            Some("it has no IP address: assign one to its link".to_owned())
        }
        Ok(_) => None,
    };
    if unusable.is_some() && function.join("physfn").exists() {
        return None;
    }
    let gid = selected.ok().and_then(|selected| selected.gid);
    let numa = fs::read_to_string(function.join("numa_node")).ok();
    Some(NodePort {
        device,
        port: number,
        infiniband: port.layer == LinkLayer::InfiniBand,
        link: port.link.clone().map(SanitizedText::from),
        address: gid.map(|gid| gid_selection::address(gid.entry.gid)),
        networks: networks(port),
        speed_mbps: port.speed_mbps,
        pci: name_of_target(&function).map(SanitizedText::from),
        numa_node: numa.and_then(|text| text.trim().parse().ok()),
        unusable: unusable.map(SanitizedText::from),
    })
}

/// Returns the subnets of the port's usable GIDs: IPv4 first, without link-local ones.
fn networks(port: &CandidatePort) -> Vec<SanitizedText> {
    if port.layer == LinkLayer::InfiniBand {
        let prefix = port.gids.first().map(|entry| entry.gid.to_bits() >> 64);
        return prefix.map(|prefix| format!("ib {prefix:016x}").into()).into_iter().collect();
    }
    let usable = port.gids.iter().filter(|entry| entry.ours).filter_map(|entry| entry.network);
    let mut found: Vec<IpNetwork> = usable
        .filter(|network| !matches!(network.ip(), IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .filter_map(|network| IpNetwork::new(network.network(), network.prefix()).ok())
        .collect();
    found.sort();
    found.dedup();
    found.iter().take(MAX_PORT_NETWORKS).map(|network| network.to_string().into()).collect()
}

fn name_of_target(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Returns the name with its trailing number as a number, so that `mlx5_10` follows `mlx5_9`.
fn natural(device: &DeviceName) -> (&str, u64) {
    let name = device.as_str();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_node::SimulatedNode;

    #[test]
    fn ports_are_listed_in_the_order_of_their_pci_addresses_with_their_subnets() {
        let node = SimulatedNode::new();
        node.port("mlx5_10", "0000:18:00.0", "127.0.0.1");
        node.port("mlx5_2", "0000:98:00.0", "127.0.0.1");
        let ports = node_ports(&node.sysfs()).unwrap();
        let names: Vec<String> = ports.iter().map(NodePort::name).collect();
        assert_eq!(names, ["mlx5_10/1", "mlx5_2/1"]);
        assert_eq!(ports[0].networks, ["127.0.0.0/8".into()]);
        assert_eq!((ports[0].address, ports[0].numa_node), ("127.0.0.1".parse().ok(), Some(0)));
        assert_eq!((ports[0].speed_mbps, &ports[0].unusable), (Some(400_000), &None));
    }

    #[test]
    fn a_port_that_is_down_is_listed_with_the_reason_and_an_unused_vf_is_not() {
        let node = SimulatedNode::new();
        node.port("mlx5_0", "0000:18:00.0", "127.0.0.1");
        node.port("mlx5_1", "0000:2a:00.0", "127.0.0.1");
        node.set_state("mlx5_1", "1: DOWN");
        node.port("mlx5_2", "0000:2a:00.1", "127.0.0.1");
        node.set_state("mlx5_2", "1: DOWN");
        node.make_vf("mlx5_2");
        let ports = node_ports(&node.sysfs()).unwrap();
        assert_eq!(ports.len(), 2);
        let why = ports[1].unusable.as_ref().unwrap();
        assert!(why.as_str().contains("expected Active"), "{why}");
    }

    #[test]
    fn a_vf_with_an_address_is_listed_and_a_port_needs_more_than_a_link_local_one() {
        let node = SimulatedNode::new();
        node.port("mlx5_0", "0000:18:00.0", "127.0.0.1");
        node.port("mlx5_1", "0000:18:00.1", "127.0.0.1");
        node.make_vf("mlx5_1");
        // No link has this address, although one has its subnet: a pod has it.
        node.port("mlx5_2", "0000:18:01.0", "127.0.0.5");
        let gid = node.path("sys/class/infiniband/mlx5_0/ports/1/gids/0");
        fs::write(gid, "fe80:0000:0000:0000:0000:0000:0000:0001\n").unwrap();
        let ports = node_ports(&node.sysfs()).unwrap();
        let why: Vec<_> =
            ports.iter().map(|port| port.unusable.as_ref().map(SanitizedText::as_str)).collect();
        assert_eq!(why[..2], [Some("it has no IP address: assign one to its link"), None]);
        assert!(why[2].is_some_and(|why| why.contains("1 of links in other network namespaces")), "{why:?}");
        assert!(ports[0].networks.is_empty() && ports[1].networks.len() == 1, "{ports:?}");
    }

    #[test]
    fn the_networks_of_a_port_are_its_own_global_ones_each_once() {
        let entry = |address: &str, ours| {
            let network: IpNetwork = address.parse().unwrap();
            let gid = match network.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let link = Some("eth0".into());
            gid_selection::GidCandidate {
                index: 0,
                gid,
                kind: sysfs::GidType::RoceV2,
                link,
                network: Some(network),
                ours,
            }
        };
        let mut port = CandidatePort {
            device: "mlx5_0".into(),
            number: 1,
            state: rdma::PortState::Active,
            layer: LinkLayer::Ethernet,
            link: None,
            speed_mbps: None,
            mtu: None,
            gids: vec![
                entry("fe80::1/64", true),
                entry("2001:db8::1/64", true),
                entry("10.0.0.1/24", true),
                entry("10.0.0.1/24", true),
                entry("172.16.0.1/16", false),
            ],
        };
        assert_eq!(networks(&port), ["10.0.0.0/24".into(), "2001:db8::/64".into()]);
        port.layer = LinkLayer::InfiniBand;
        assert_eq!(networks(&port), ["ib fe80000000000000".into()]);
    }

    #[test]
    fn numbers_in_names_are_ordered_as_numbers() {
        let mut names: Vec<DeviceName> =
            ["mlx5_10", "mlx5_9", "bnxt_re0", "rdma"].map(|name| name.parse().unwrap()).to_vec();
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        let sorted: Vec<&str> = names.iter().map(DeviceName::as_str).collect();
        assert_eq!(sorted, ["bnxt_re0", "mlx5_9", "mlx5_10", "rdma"]);
    }
}
