//! The networks of `conf/` in a pod that has a network already.

use serde_json::{Value, json};
use testkit::{Call, Observe};

use silkrail_tests::{
    cluster::Cluster,
    conf::{self, Network},
    machine::{Machine, rdma_devices},
};

/// The calls of a network's plugins, with what differs from machine to machine.
fn calls(machine: &Machine, network: &Value, device: &str) -> Vec<Call> {
    let mut plugins = conf::plugins(network);
    for plugin in &mut plugins {
        match plugin["type"].as_str().unwrap() {
            "macvlan" | "ipvlan" => plugin["master"] = json!("eth0"),
            "sriov" | "rdma" => plugin["deviceID"] = json!(device),
            other => panic!("an example of {other}"),
        }
        if plugin.get("ipam").is_some() {
            plugin["ipam"]["poolsDir"] = json!(conf::path("pools"));
        }
    }
    plugins.iter().map(|plugin| machine.node.plugin(plugin["type"].as_str().unwrap()).conf(plugin)).collect()
}

fn is_beside_a_cluster_network(machine: &Machine, network: &Value) {
    let vf = machine.vf("eth1", 2);
    let (pod, far) = (machine.node.pod("a"), machine.node.pod("far"));
    let cluster = Cluster::of(&pod, &far);
    let mut result = Value::Null;
    let calls = calls(machine, network, &vf.pci).into_iter().map(|call| call.pod(&pod));
    let calls: Vec<Call> = calls.collect();
    for call in &calls {
        let call = if result.is_null() { call.clone() } else { call.with("prevResult", &result) };
        result = call.add().ok();
        cluster.is_as_before();
    }
    assert_eq!(json!(pod.addresses("net1")), json!([result["ips"][0]["address"]]));
    assert!(!rdma_devices(&pod).is_empty());
    for call in &calls {
        call.check_after(&result).done();
    }
    for call in calls.iter().rev() {
        call.with("prevResult", &result).del().done();
        cluster.is_as_before();
    }
    cluster.is_alone();
}

#[test]
fn invariant_12_every_example_of_shared_mode_is_attached_and_detached_beside_a_cluster_network() {
    let machine = Machine::shared();
    let is_shared = |network: &Network| network.path.parent().unwrap().ends_with("shared");
    let examples: Vec<_> = conf::networks().into_iter().filter(is_shared).collect();
    assert!(examples.len() >= 4, "{examples:?}");
    examples.iter().for_each(|example| is_beside_a_cluster_network(&machine, &example.network));
}

#[test]
fn invariant_12_every_other_example_is_attached_and_detached_beside_a_cluster_network() {
    let machine = Machine::exclusive();
    let is_shared = |network: &Network| network.path.parent().unwrap().ends_with("shared");
    let examples: Vec<_> = conf::networks().into_iter().filter(|network| !is_shared(network)).collect();
    assert!(examples.len() >= 2, "{examples:?}");
    examples.iter().for_each(|example| is_beside_a_cluster_network(&machine, &example.network));
}
