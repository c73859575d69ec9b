//! Several rails in one subnet: the kernel must use the link of an address for its packets.

use std::collections::{BTreeMap, BTreeSet};

use ipnetwork::IpNetwork;

use crate::{
    Finding, FindingId, NodeFacts,
    facts::{links::LinkFacts, networks::PluginOfNetwork},
};

const HOST: FindingId = FindingId::new(
    "rails-share-subnet",
    "Links with RDMA are in one subnet, and the kernel answers for the addresses of one on another",
);
const PODS: FindingId = FindingId::new(
    "networks-share-subnet",
    "Networks on different masters assign addresses of one subnet, and their pods have no routing table for each rail",
);

pub(super) const IDS: &[FindingId] = &[HOST, PODS];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    found.extend(host(facts));
    found.extend(pods(facts));
}

fn host(facts: &NodeFacts) -> Vec<Finding> {
    let mut by_subnet: BTreeMap<IpNetwork, BTreeSet<&str>> = BTreeMap::new();
    for device in facts.devices.iter().filter(|device| !facts.is_vf(device)) {
        for link in device.ports.iter().filter_map(|port| facts.link(port.link.as_deref()?)) {
            for address in link.addresses.iter().flatten().filter(|address| address.is_ipv4()) {
                by_subnet.entry(subnet(*address)).or_default().insert(&link.name);
            }
        }
    }
    let mut found = Vec::new();
    for (subnet, links) in by_subnet.into_iter().filter(|(_, links)| links.len() > 1) {
        let links: Vec<&LinkFacts> = links.into_iter().filter_map(|link| facts.link(link)).collect();
        let wrong: Vec<String> = links.iter().filter_map(|link| wrong_settings(link)).collect();
        if wrong.is_empty() {
            continue;
        }
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let finding = HOST.warning(
            names.join(", "),
            format!("they are in the subnet {subnet}, and the kernel does not keep their packets apart: RDMA connections of one fail or use another"),
        );
        let fix = "silkrail tune apply with a profile that has multiRail: true, or a subnet for each rail";
        found.push(finding.because_all(wrong).fix(fix));
    }
    found
}

/// The settings that make the kernel answer or send on another link; `None` if they are right.
fn wrong_settings(link: &LinkFacts) -> Option<String> {
    let arp = &link.arp;
    let mut wrong = Vec::new();
    if arp.ignore == Some(0) {
        wrong.push("arp_ignore is 0, expected 1 or more".to_owned());
    }
    if let Some(announce @ 0..=1) = arp.announce {
        wrong.push(format!("arp_announce is {announce}, expected 2"));
    }
    if arp.rp_filter == Some(1) {
        wrong.push("rp_filter is 1 (strict), expected 0 or 2".to_owned());
    }
    (!wrong.is_empty()).then(|| format!("{}: {}", link.name, wrong.join("; ")))
}

/// In a pod with several such networks, packets of one rail leave through another unless `rail` is set.
fn pods(facts: &NodeFacts) -> Vec<Finding> {
    let mut by_subnet: BTreeMap<IpNetwork, BTreeMap<&str, (String, bool)>> = BTreeMap::new();
    for (network, plugin) in facts.networks.plugins().filter(|(_, plugin)| plugin.ours) {
        let Some(master) = plugin.conf.text("master") else { continue };
        let master = facts.link_called(master).map_or(master, |link| link.name.as_str());
        let has_table = plugin.conf.value("rail").is_some_and(|rail| *rail != false);
        for subnet in subnets(facts, plugin) {
            by_subnet.entry(subnet).or_default().insert(master, (network.name.clone(), has_table));
        }
    }
    let mut found = Vec::new();
    for (subnet, masters) in by_subnet.into_iter().filter(|(_, masters)| masters.len() > 1) {
        if masters.values().all(|(_, has_table)| *has_table) {
            continue;
        }
        let networks: BTreeSet<&str> = masters.values().map(|(network, _)| network.as_str()).collect();
        let finding = PODS.warning(
            networks.into_iter().collect::<Vec<_>>().join(", "),
            format!("they assign addresses of {subnet} on different masters: a pod with both sends packets of one rail through the other"),
        );
        let without = masters.iter().filter(|(_, (_, has_table))| !has_table);
        let without =
            without.map(|(master, (network, _))| format!("{network} (master {master}): rail is not set"));
        found.push(
            finding
                .because_all(without)
                .fix("set \"rail\": true in each of them, or give each rail a subnet of its own"),
        );
    }
    found
}

/// Returns the IPv4 subnets of the pools that a configuration lists.
fn subnets(facts: &NodeFacts, plugin: &PluginOfNetwork) -> BTreeSet<IpNetwork> {
    let inline = plugin.conf.ipam_value("pools").and_then(|pools| ipam::Pools::from_inline(pools).ok());
    let listed = plugin.conf.ipam_value("default_ipv4_ippool").and_then(|listed| listed.as_array());
    let named =
        listed.into_iter().flatten().filter_map(|name| facts.pools.subnets.get(name.as_str()?)).copied();
    let inline: Vec<_> = inline.iter().flat_map(|pools| pools.iter().map(|pool| pool.subnet)).collect();
    named.chain(inline).filter(IpNetwork::is_ipv4).map(subnet).collect()
}

fn subnet(address: IpNetwork) -> IpNetwork {
    IpNetwork::new(address.network(), address.prefix()).unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{network, with};
    use crate::facts::links::ArpSettings;

    #[test]
    fn networks_in_one_subnet_need_a_table_for_each_rail() {
        let found = |second: &str, rails: [bool; 2]| {
            with(|facts| {
                for (at, (subnet, rail)) in ["10.7.0.0/24", second].into_iter().zip(rails).enumerate() {
                    let ips = subnet.replace("0/24", "9");
                    let ipam = json!({"type": "silkrail-ipam", "pools": [{"name": "p", "subnet": subnet, "ips": [ips]}]});
                    let plugin =
                        json!({"type": "macvlan", "master": format!("eth{at}"), "rail": rail, "ipam": ipam});
                    facts.networks.networks.push(network(&format!("rail{at}"), &json!([plugin])));
                }
            })
        };
        let share = ["warning networks-share-subnet rail0, rail1"];
        assert_eq!(found("10.7.0.0/24", [false, false]), share);
        assert_eq!(found("10.7.0.0/24", [true, false]), share);
        assert!(found("10.7.0.0/24", [true, true]).is_empty());
        assert!(found("10.8.0.0/24", [false, false]).is_empty());
        let named = |second: [&str; 2], ours: bool| {
            with(|facts| {
                for (name, subnet) in [("a", "10.7.0.0/24"), ("b", "10.8.0.0/24"), ("c", "10.7.0.0/24")] {
                    facts.pools.subnets.insert(name.into(), subnet.parse().unwrap());
                }
                for (at, pools) in [["a", "x"], second].into_iter().enumerate() {
                    let ipam = json!({"type": "silkrail-ipam", "default_ipv4_ippool": pools});
                    let plugin = json!({"type": "macvlan", "master": format!("eth{at}"), "ipam": ipam});
                    let mut network = network(&format!("rail{at}"), &json!([plugin]));
                    network.plugins[0].ours = ours;
                    facts.networks.networks.push(network);
                }
            })
        };
        assert_eq!(named(["b", "c"], true), share);
        assert!(named(["b", "x"], true).is_empty() && named(["b", "c"], false).is_empty());
    }

    #[test]
    fn two_links_in_one_subnet_need_settings() {
        let found = |ignore, announce, rp_filter| {
            with(|facts| {
                for link in &mut facts.links {
                    link.arp = ArpSettings {
                        ignore: Some(ignore),
                        announce: Some(announce),
                        rp_filter: Some(rp_filter),
                    };
                }
            })
        };
        assert_eq!(found(0, 2, 0), ["warning rails-share-subnet eth0, eth1"]);
        assert_eq!(found(1, 1, 0), ["warning rails-share-subnet eth0, eth1"]);
        assert_eq!(found(1, 2, 1), ["warning rails-share-subnet eth0, eth1"]);
        assert!(found(1, 2, 2).is_empty() && found(2, 2, 0).is_empty());
    }
}
