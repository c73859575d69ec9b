//! The rails of a cluster: which ports of different nodes belong together.
//!
//! Ports with an address in the same subnet are one rail. If a node has several ports in one subnet, the first of each node
//! are one rail, the second are another, and so on, in the order of the PCI addresses. A port whose subnet no other node has,
//! as with a /31 per link, belongs to the rail of the ports at the same position of the other nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{DeviceName, node_port::NodePort};

/// A rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rail {
    /// The device that most nodes have on it, for example `mlx5_0`.
    pub device: String,
    /// The subnet that its ports share; `None` if they are matched by their position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// The rails of a cluster, and the port of each node on each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RailTable {
    /// The rails, in the order of the positions of their ports.
    pub rails: Vec<Rail>,
    /// For each node, its port on each rail.
    ports: Vec<Vec<Option<NodePort>>>,
}

/// What ports of one rail have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RailKey {
    /// The subnet, and which port of the node in this subnet it is.
    Network(String, usize),
    /// The position among the ports of the node.
    Position(usize),
}

/// A node without a usable port on a rail that other nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPort {
    /// The index of the node.
    pub node: usize,
    /// The index of the rail.
    pub rail: usize,
    /// Why there is none.
    pub why: String,
}

impl RailTable {
    /// Assigns the ports of all nodes to rails. Only ports of the devices in `only` are used, or all if it is empty.
    pub fn new(nodes: &[Vec<NodePort>], only: &[DeviceName]) -> Self {
        let is_wanted = |port: &&NodePort| only.is_empty() || only.contains(&port.device);
        let nodes: Vec<Vec<&NodePort>> =
            nodes.iter().map(|ports| ports.iter().filter(is_wanted).collect()).collect();
        let keys = keys(&nodes);
        let order = order(&keys);
        let place = |wanted: &RailKey| order.iter().position(|key| key == wanted);
        let mut ports = vec![vec![None; order.len()]; nodes.len()];
        for (node, (of_node, keys)) in nodes.iter().zip(&keys).enumerate() {
            for (port, key) in of_node.iter().zip(keys) {
                if let Some(rail) = place(key) {
                    ports[node][rail] = Some((*port).clone());
                }
            }
        }
        let rails = order.iter().enumerate().map(|(rail, key)| describe(rail, key, &ports)).collect();
        let mut table = Self { rails, ports };
        table.remove_unusable();
        table
    }

    /// Returns the port of a node on a rail, if it is usable.
    pub fn port(&self, node: usize, rail: usize) -> Option<&NodePort> {
        self.ports.get(node)?.get(rail)?.as_ref().filter(|port| port.unusable.is_none())
    }

    /// Returns the rails on which both nodes have a usable port.
    pub fn common(&self, a: usize, b: usize) -> Vec<usize> {
        (0..self.rails.len())
            .filter(|rail| self.port(a, *rail).is_some() && self.port(b, *rail).is_some())
            .collect()
    }

    /// Returns the ports that the given nodes do not have, or cannot use, on rails that at least two of them can use.
    pub fn missing(&self, nodes: &[usize]) -> Vec<MissingPort> {
        let mut missing = Vec::new();
        for rail in 0..self.rails.len() {
            let (have, lack): (Vec<usize>, Vec<usize>) =
                nodes.iter().partition(|node| self.port(**node, rail).is_some());
            if have.len() < 2 {
                continue;
            }
            for node in lack {
                let why = match self.ports[node][rail].as_ref() {
                    Some(port) => {
                        format!(
                            "{}: {}",
                            port.name(),
                            port.unusable.as_ref().map_or("not usable", |why| why.as_str())
                        )
                    }
                    None => "the node has no port on it".to_owned(),
                };
                missing.push(MissingPort { node, rail, why });
            }
        }
        missing
    }

    /// Removes rails that no two nodes can use: their ports are meant for something else.
    fn remove_unusable(&mut self) {
        let is_usable =
            |rail: usize| (0..self.ports.len()).filter(|node| self.port(*node, rail).is_some()).count() > 1;
        let kept: Vec<usize> = (0..self.rails.len()).filter(|rail| is_usable(*rail)).collect();
        self.rails = kept.iter().map(|rail| self.rails[*rail].clone()).collect();
        for ports in &mut self.ports {
            *ports = kept.iter().map(|rail| ports[*rail].clone()).collect();
        }
    }
}

/// Returns the key of each port of each node.
fn keys(nodes: &[Vec<&NodePort>]) -> Vec<Vec<RailKey>> {
    let mut nodes_of: BTreeMap<&str, usize> = BTreeMap::new();
    for ports in nodes {
        let networks: BTreeSet<&str> =
            ports.iter().flat_map(|port| &port.networks).map(|network| network.as_str()).collect();
        networks.into_iter().for_each(|network| *nodes_of.entry(network).or_default() += 1);
    }
    let shared = |port: &NodePort| {
        let mut networks = port.networks.iter().map(|network| network.as_str());
        networks.find(|network| nodes_of.get(network).is_some_and(|nodes| *nodes > 1)).map(str::to_owned)
    };
    let mut keys: Vec<Vec<Option<RailKey>>> = nodes.iter().map(|ports| by_network(ports, shared)).collect();
    let usual = usual_keys(&keys);
    for of_node in &mut keys {
        for position in 0..of_node.len() {
            if of_node[position].is_some() {
                continue;
            }
            let usual =
                usual.get(&position).filter(|key| !of_node.iter().flatten().any(|taken| taken == *key));
            of_node[position] = Some(usual.cloned().unwrap_or(RailKey::Position(position)));
        }
    }
    keys.into_iter().map(|of_node| of_node.into_iter().flatten().collect()).collect()
}

fn by_network(ports: &[&NodePort], shared: impl Fn(&NodePort) -> Option<String>) -> Vec<Option<RailKey>> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut key = |port: &&NodePort| {
        let network = shared(port)?;
        let count = seen.entry(network.clone()).or_default();
        *count += 1;
        Some(RailKey::Network(network, *count - 1))
    };
    ports.iter().map(&mut key).collect()
}

/// Returns the most frequent key of the ports at each position.
fn usual_keys(keys: &[Vec<Option<RailKey>>]) -> BTreeMap<usize, RailKey> {
    let mut counts: BTreeMap<(usize, &RailKey), usize> = BTreeMap::new();
    for of_node in keys {
        for (position, key) in of_node.iter().enumerate() {
            if let Some(key) = key {
                *counts.entry((position, key)).or_default() += 1;
            }
        }
    }
    let mut usual: BTreeMap<usize, (&RailKey, usize)> = BTreeMap::new();
    for ((position, key), count) in counts {
        let best = usual.entry(position).or_insert((key, count));
        if count > best.1 {
            *best = (key, count);
        }
    }
    usual.into_iter().map(|(position, (key, _))| (position, key.clone())).collect()
}

/// Returns the keys in the order of their ports' lowest positions.
fn order(keys: &[Vec<RailKey>]) -> Vec<RailKey> {
    let mut first: BTreeMap<&RailKey, usize> = BTreeMap::new();
    for of_node in keys {
        for (position, key) in of_node.iter().enumerate() {
            let lowest = first.entry(key).or_insert(position);
            *lowest = position.min(*lowest);
        }
    }
    let mut all: Vec<(&RailKey, usize)> = first.into_iter().collect();
    all.sort_by_key(|(key, position)| (*position, *key));
    all.into_iter().map(|(key, _)| key.clone()).collect()
}

fn describe(rail: usize, key: &RailKey, ports: &[Vec<Option<NodePort>>]) -> Rail {
    let mut devices: BTreeMap<&str, usize> = BTreeMap::new();
    for port in ports.iter().filter_map(|of_node| of_node[rail].as_ref()) {
        *devices.entry(port.device.as_str()).or_default() += 1;
    }
    let device = devices.into_iter().max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)));
    let network = match key {
        RailKey::Network(network, _) => Some(network.clone()),
        RailKey::Position(_) => None,
    };
    Rail { device: device.map(|(name, _)| name.to_owned()).unwrap_or_default(), network }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, network: &str) -> NodePort {
        NodePort {
            device: device.parse().unwrap(),
            port: 1u64.try_into().unwrap(),
            infiniband: false,
            link: None,
            address: None,
            networks: (!network.is_empty()).then(|| network.into()).into_iter().collect(),
            speed_mbps: None,
            pci: None,
            numa_node: None,
            unusable: None,
        }
    }

    /// `device:network` of each port of a node.
    fn node(ports: &[&str]) -> Vec<NodePort> {
        ports
            .iter()
            .map(|text| text.split_once('=').unwrap())
            .map(|(device, network)| port(device, network))
            .collect()
    }

    fn devices(table: &RailTable, node: usize) -> Vec<Option<&str>> {
        (0..table.rails.len()).map(|rail| table.port(node, rail).map(|port| port.device.as_str())).collect()
    }

    #[test]
    fn ports_in_one_subnet_are_a_rail_whatever_their_names_and_positions() {
        let nodes = [
            node(&["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24"]),
            node(&["mlx5_2=10.0.1.0/24", "mlx5_7=10.0.0.0/24"]),
            node(&["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24"]),
        ];
        let table = RailTable::new(&nodes, &[]);
        assert_eq!(table.rails[0], Rail { device: "mlx5_0".into(), network: Some("10.0.0.0/24".into()) });
        assert_eq!(devices(&table, 1), [Some("mlx5_7"), Some("mlx5_2")]);
        assert_eq!(table.common(0, 1), [0, 1]);
    }

    #[test]
    fn several_ports_in_one_subnet_are_matched_by_their_order() {
        let nodes = [node(&["a=10.0.0.0/16", "b=10.0.0.0/16"]), node(&["c=10.0.0.0/16", "d=10.0.0.0/16"])];
        let table = RailTable::new(&nodes, &[]);
        assert_eq!(
            (devices(&table, 0), devices(&table, 1)),
            (vec![Some("a"), Some("b")], vec![Some("c"), Some("d")])
        );
    }

    #[test]
    fn ports_whose_subnets_nothing_shares_are_matched_by_their_position() {
        let nodes = [
            node(&["mlx5_0=10.0.0.0/31", "mlx5_1=10.1.0.0/31"]),
            node(&["mlx5_0=10.0.0.2/31", "mlx5_1=10.1.0.2/31"]),
        ];
        let table = RailTable::new(&nodes, &[]);
        assert_eq!(table.rails.iter().map(|rail| rail.network.clone()).collect::<Vec<_>>(), [None, None]);
        assert_eq!(devices(&table, 1), [Some("mlx5_0"), Some("mlx5_1")]);
    }

    #[test]
    fn a_port_without_the_usual_subnet_joins_the_rail_of_its_position() {
        let usual = ["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24"];
        let nodes = [node(&usual), node(&usual), node(&["mlx5_0=10.0.0.0/24", "mlx5_1=192.0.2.0/24"])];
        let table = RailTable::new(&nodes, &[]);
        assert_eq!((table.rails.len(), devices(&table, 2)), (2, vec![Some("mlx5_0"), Some("mlx5_1")]));
    }

    #[test]
    fn a_port_without_a_shared_subnet_joins_the_most_frequent_rail_of_its_position_unless_it_is_taken() {
        let nodes = [
            node(&["a=10.0.1.0/24", "b=10.0.0.0/24"]),
            node(&["a=10.0.0.0/24", "b=10.0.1.0/24"]),
            node(&["a=10.0.0.0/24", "b=10.0.1.0/24"]),
            node(&["a=192.0.2.0/24", "b=10.0.1.0/24"]),
            node(&["a=10.0.1.0/24", "b=198.51.100.0/24"]),
        ];
        let table = RailTable::new(&nodes, &[]);
        let networks: Vec<_> = table.rails.iter().map(|rail| rail.network.as_deref().unwrap()).collect();
        assert_eq!(networks, ["10.0.0.0/24", "10.0.1.0/24"], "{table:?}");
        assert_eq!(devices(&table, 3), [Some("a"), Some("b")]);
        assert_eq!(devices(&table, 4), [None, Some("a")], "no port has its rail taken");
    }

    #[test]
    fn a_subnet_is_shared_by_nodes_and_not_by_the_ports_of_one() {
        let nodes =
            [node(&["a=10.0.0.0/24", "b=10.0.0.0/24"]), node(&["a=172.16.0.0/24", "b=172.17.0.0/24"])];
        let table = RailTable::new(&nodes, &[]);
        assert_eq!(table.rails.iter().map(|rail| rail.network.clone()).collect::<Vec<_>>(), [None, None]);
        // A port with several subnets is on the rail of the one that others have.
        let mut both = node(&["a=192.0.2.0/24"]);
        both[0].networks.push("10.0.1.0/24".into());
        let table = RailTable::new(&[both, node(&["x=10.0.0.0/24", "b=10.0.1.0/24"])], &[]);
        assert_eq!(table.rails, [Rail { device: "a".into(), network: Some("10.0.1.0/24".into()) }]);
        assert_eq!(devices(&table, 1), [Some("b")]);
    }

    #[test]
    fn a_rail_has_the_name_that_most_of_its_devices_have() {
        let named = |devices: [&str; 3]| {
            let nodes = devices.map(|device| node(&[&format!("{device}=10.0.0.0/24")]));
            RailTable::new(&nodes, &[]).rails[0].device.clone()
        };
        assert_eq!(named(["mlx5_0", "mlx5_7", "mlx5_7"]), "mlx5_7");
        assert_eq!(named(["mlx5_2", "mlx5_0", "mlx5_1"]), "mlx5_0");
        let descending = node(&["mlx5_0=10.0.9.0/24", "mlx5_1=10.0.1.0/24"]);
        let table = RailTable::new(&[descending.clone(), descending], &[]);
        assert_eq!(
            devices(&table, 0),
            [Some("mlx5_0"), Some("mlx5_1")],
            "the order of the ports, not of the subnets"
        );
    }

    #[test]
    fn a_port_that_is_down_is_missing_on_its_rail_and_the_others_keep_theirs() {
        let usual = ["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24", "mlx5_2=10.0.2.0/24"];
        let mut broken = node(&["mlx5_0=10.0.0.0/24", "mlx5_1=", "mlx5_2=10.0.2.0/24"]);
        broken[1].unusable = Some("it is Down".into());
        let table = RailTable::new(&[node(&usual), broken, node(&usual)], &[]);
        assert_eq!(devices(&table, 1), [Some("mlx5_0"), None, Some("mlx5_2")]);
        assert_eq!(table.common(0, 1), [0, 2]);
        let missing = table.missing(&[0, 1, 2]);
        assert_eq!(missing, [MissingPort { node: 1, rail: 1, why: "mlx5_1/1: it is Down".into() }]);
        assert!(table.missing(&[0, 2]).is_empty());
        assert!(table.missing(&[0, 1]).is_empty(), "no two of them have the rail");
    }

    #[test]
    fn only_the_selected_devices_and_only_rails_of_two_nodes_are_used() {
        let nodes = [
            node(&["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24", "storage=172.16.0.0/24"]),
            node(&["mlx5_0=10.0.0.0/24", "mlx5_1=10.0.1.0/24"]),
        ];
        assert_eq!(RailTable::new(&nodes, &[]).rails.len(), 2);
        let only = RailTable::new(&nodes, &["mlx5_1".parse().unwrap()]);
        assert_eq!(only.rails, [Rail { device: "mlx5_1".into(), network: Some("10.0.1.0/24".into()) }]);
    }
}
