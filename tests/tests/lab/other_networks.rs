//! The example networks of `conf/`, attached to a pod that already has a cluster network.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod};

use silkrail_tests::{
    cluster::ClusterNetwork,
    conf::{self, NetworkConf},
    machine::{LabMachine, rdma_devices},
};

/// Returns the calls of a network's plugins, with the links and devices of this machine.
fn calls(machine: &LabMachine, network: &Value, device: &str) -> Vec<Call> {
    let mut plugins = conf::plugins(network);
    for plugin in &mut plugins {
        match plugin["type"].as_str().unwrap() {
            "macvlan" | "ipvlan" => plugin["master"] = json!("eth0"),
            "sriov" | "rdma" => plugin["deviceID"] = json!(device),
            other => panic!("an example with the plugin {other}"),
        }
        if plugin.get("ipam").is_some() {
            plugin["ipam"]["poolsDir"] = json!(conf::path("pools"));
        }
    }
    plugins.iter().map(|plugin| machine.node.plugin(plugin["type"].as_str().unwrap()).conf(plugin)).collect()
}

fn is_beside_a_cluster_network(machine: &LabMachine, network: &Value) {
    let vf = machine.vf("eth1", 2);
    let (pod, far) = (machine.node.pod("a"), machine.node.pod("far"));
    let cluster = ClusterNetwork::of(&pod, &far);
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
    let machine = LabMachine::shared();
    let is_shared = |network: &NetworkConf| network.path.parent().unwrap().ends_with("shared");
    let examples: Vec<_> = conf::networks().into_iter().filter(is_shared).collect();
    assert!(examples.len() >= 4, "{examples:?}");
    examples.iter().for_each(|example| is_beside_a_cluster_network(&machine, &example.network));
}

#[test]
fn invariant_12_every_other_example_is_attached_and_detached_beside_a_cluster_network() {
    let machine = LabMachine::exclusive();
    let is_shared = |network: &NetworkConf| network.path.parent().unwrap().ends_with("shared");
    let examples: Vec<_> = conf::networks().into_iter().filter(|network| !is_shared(network)).collect();
    assert!(examples.len() >= 2, "{examples:?}");
    examples.iter().for_each(|example| is_beside_a_cluster_network(&machine, &example.network));
}

/// Returns the names of a pod's links, sorted by index: some programs use the first one.
fn order(pod: &TestPod) -> Vec<String> {
    let mut links = pod.links();
    links.sort_by_key(|link| link["ifindex"].as_u64());
    links.iter().map(|link| link["ifname"].as_str().unwrap().to_owned()).collect()
}

// The lab's kernel refuses an index in the pod that a link of the host has.
#[test]
fn a_new_link_gets_an_index_above_those_of_the_pod() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let calls = ["eth0", "net1", "net2"].map(|name| {
        let conf = json!({"master": "eth1", "ipam": {}, "cniVersion": "1.0.0"});
        machine.plugin("macvlan", &conf).pod(&pod).ifname(name)
    });
    for call in &calls {
        call.add().ok();
    }
    assert_eq!(order(&pod), ["lo", "eth0", "net1", "net2"]);
    let last = pod.link("net2").unwrap()["ifindex"].as_u64().unwrap();
    assert!(last < 10_000, "{last}");
    for call in calls.iter().rev() {
        call.del().done();
    }
    let ipvlan = machine.plugin("ipvlan", &json!({"master": "eth0"})).pod(&pod);
    pod.run_ip("link add eth0 type dummy");
    ipvlan.add().ok();
    assert_eq!(order(&pod), ["lo", "eth0", "net1"]);
    // An ipvlan link has the MAC address of its master, which does not identify it.
    pod.run_ip("link set net1 down");
    pod.run_ip("link set net1 name renamed");
    ipvlan.del().done();
    assert_eq!(order(&pod), ["lo", "eth0"]);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_vf_link_gets_an_index_above_those_of_the_pod_and_its_own_on_return() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    let index = || machine.node.link(&vf.link).unwrap()["ifindex"].as_u64().unwrap();
    let host_index = index();
    for eth0 in [host_index - 1, host_index, host_index + 1000] {
        let pod = machine.node.pod("a");
        pod.run_ip(&format!("link add eth0 index {eth0} type dummy"));
        let call = machine.plugin("sriov", &json!({"deviceID": vf.pci})).pod(&pod);
        call.add().ok();
        assert_eq!(order(&pod), ["lo", "eth0", "net1"]);
        let there = pod.link("net1").unwrap()["ifindex"].as_u64().unwrap();
        assert_eq!(there, host_index.max(eth0 + 1));
        call.del().done();
        assert_eq!(index(), host_index);
    }
    machine.node.snapshot().assert_is(&before);
}
