//! Networks to which a pod can or cannot be attached.

use serde_json::{Value, json};

use super::*;
use crate::rules::testing::{network, with};

type Change = fn(&mut NodeFacts);

fn first(facts: &mut NodeFacts) -> &mut PluginOfNetwork {
    &mut facts.networks.networks[0].plugins[0]
}

fn refuse(facts: &mut NodeFacts) {
    first(facts).status =
        Some(PluginStatus::Refused { message: "master: no eth9".into(), details: "links: eth0".into() });
}

fn is_definition(facts: &mut NodeFacts) {
    facts.networks.networks[0].source = NetworkSource::Definition("ai/rail".into());
    facts.resources.registered = Some(vec!["a.io/vf".into()]);
}

#[test]
fn a_network_is_one_to_which_a_pod_can_be_attached() {
    let none: Change = |_| ();
    let lacks: Change = |facts| {
        (first(facts).file, first(facts).ours, first(facts).status) = (Known::Absent, false, None);
    };
    let lacks_ipam: Change = |facts| first(facts).ipam_file = Some(Known::Absent);
    let lacks_ipam_of_other: Change = |facts| {
        (first(facts).ipam_file, first(facts).ours, first(facts).status) = (Some(Known::Absent), false, None);
    };
    let listens: Change =
        |facts| (facts.networks.sockets.dhcp, facts.networks.sockets.ipam_agent) = (true, true);
    let dhcp = json!([{"type": "macvlan", "ipam": {"type": "dhcp"}}]);
    let cluster = json!([{"type": "macvlan", "ipam": {"type": "silkrail-ipam", "store": "cluster"}}]);
    let isolated = json!([{"type": "sriov", "rdmaIsolation": true}, {"type": "rdma"}]);
    let vlan = json!([{"type": "ifacer"}, {"type": "macvlan", "master": "eth9"}]);
    let bond = json!([{"type": "ifacer", "bond": {"name": "bond0"}}]);
    let cases: [(Value, Change, &str); 25] = [
        (json!([{"type": "macvlan"}]), none, ""),
        (json!([{"type": "macvlan"}]), lacks, "error network-plugin-missing"),
        (json!([{"type": "macvlan", "ipam": {"type": "x"}}]), lacks_ipam, ""),
        (
            json!([{"type": "bridge", "ipam": {"type": "x"}}]),
            lacks_ipam_of_other,
            "error network-plugin-missing",
        ),
        (json!([{"type": "macvlan"}]), refuse, "error network-unusable"),
        (
            vlan,
            |facts| {
                facts.networks.networks[0].plugins.iter_mut().for_each(|plugin| {
                    plugin.status =
                        Some(PluginStatus::Refused { message: "no eth9".into(), details: String::new() });
                })
            },
            "error network-unusable",
        ),
        (json!([{"type": "rdma"}]), none, "error network-chain-wrong"),
        (json!([{"type": "macvlan"}, {"type": "silkrail-rdma"}]), none, "error network-chain-wrong"),
        (isolated, none, "error network-chain-wrong"),
        (json!([{"type": "sriov"}, {"type": "rdma"}]), none, ""),
        (json!([{"type": "sriov"}]), is_definition, "error network-resource-missing"),
        (json!([{"type": "sriov", "deviceID": "0000:af:00.1"}]), is_definition, ""),
        (
            json!([{"type": "sriov"}]),
            |facts| {
                is_definition(facts);
                facts.networks.networks[0].resource = Some("a.io/other".into());
            },
            "warning network-resource-missing",
        ),
        (
            json!([{"type": "sriov"}]),
            |facts| {
                is_definition(facts);
                facts.networks.networks[0].resource = Some("a.io/vf".into());
            },
            "",
        ),
        (
            json!([{"type": "macvlan"}]),
            |facts| facts.kernel.missing_modules = vec!["macvlan"],
            "error network-module-missing",
        ),
        (json!([{"type": "macvlan"}]), |facts| facts.kernel.missing_modules = vec!["ipvlan"], ""),
        (
            bond.clone(),
            |facts| facts.kernel.missing_modules = vec!["bonding"],
            "error network-module-missing",
        ),
        (bond, |facts| facts.kernel.missing_modules = vec!["8021q"], ""),
        (dhcp.clone(), none, "error network-dhcp-daemon"),
        (dhcp, listens, ""),
        (cluster.clone(), none, "error network-ipam-agent"),
        (cluster, listens, ""),
        (json!([{"type": "ib-sriov"}]), none, "error network-vf-layer"),
        (
            json!([{"type": "macvlan"}]),
            |facts| {
                facts.networks.networks[0].source = NetworkSource::Runtime("/rail".into());
            },
            "warning network-is-default",
        ),
        (
            json!([{"type": "macvlan"}]),
            |facts| {
                facts.networks.networks[0].source = NetworkSource::Runtime("/rail".into());
                facts.networks.networks.insert(0, network("pods", &json!([{"type": "bridge"}])));
                (first(facts).ours, facts.networks.networks[0].source) =
                    (false, NetworkSource::Runtime("/a".into()));
            },
            "",
        ),
    ];
    for (plugins, change, expected) in cases {
        let found = with(|facts| {
            facts.networks.networks.push(network("rail", &plugins));
            change(facts);
        });
        let kinds: Vec<_> =
            found.iter().map(|it| it.split_once(" network rail (").map_or("", |it| it.0)).collect();
        assert_eq!(kinds.join("\n"), expected, "{plugins}: {found:?}");
    }
}

#[test]
fn two_files_of_one_directory_have_different_networks() {
    let found = |second| {
        with(|facts| {
            let two = [1, 2].map(|_| network("rail", &json!([{"type": "macvlan"}])));
            facts.networks.networks.extend(two);
            facts.networks.networks[1].source = second;
        })
    };
    assert_eq!(found(NetworkSource::Multus("/b".into())), ["error network-twice network rail"]);
    assert!(found(NetworkSource::Definition("ai/rail".into())).is_empty());
    let mut of_runtime = found(NetworkSource::Runtime("/b".into()));
    of_runtime.retain(|finding| !finding.contains("network-is-default"));
    assert!(of_runtime.is_empty(), "the runtime and Multus have directories of their own: {of_runtime:?}");
}

#[test]
fn without_kubernetes_no_network_is_that_of_every_pod() {
    let found = with(|facts| {
        facts.networks.networks.push(network("rail", &json!([{"type": "macvlan"}])));
        facts.networks.networks[0].source = NetworkSource::Runtime("/rail".into());
        facts.kubelet = crate::facts::kubelet::KubeletFacts::default();
    });
    assert_eq!(found, ["info kubelet-missing /var/lib/kubelet"]);
}

#[test]
fn one_vf_of_the_link_layer_is_enough() {
    let found = |kind: &str| {
        with(|facts| {
            let mut second = facts.devices[2].clone();
            (second.name, second.function) = ("mlx5_3".into(), Some("0000:b0:00.1".into()));
            second.node_guid = Known::Unknown;
            second.ports[0].layer = Known::Value("InfiniBand".into());
            facts.devices.push(second);
            facts.networks.networks.push(network("rail", &json!([{"type": kind}])));
        })
    };
    assert!(found("sriov").is_empty() && found("ib-sriov").is_empty());
}

#[test]
fn files_are_valid() {
    let found = with(|facts| {
        facts.runtime.broken.push(("/config.toml".into(), "line 1".into()));
        facts.networks.invalid.push(("/a.conf".into(), "name: is missing".into()));
    });
    assert_eq!(found, ["error runtime-config-invalid /config.toml", "error network-invalid /a.conf"]);
}
