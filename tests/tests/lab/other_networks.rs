//! The example networks of `conf/` and of the plugins' pages, attached to a pod that already has a cluster network.

use serde_json::{Value, json};
use testkit::{Call, Observe, Share, TestPod};

use silkrail_tests::{
    cluster::ClusterNetwork,
    conf,
    infiniband::InfinibandMachine,
    machine::{LabMachine, rdma_devices},
};

/// Returns the calls of a network's plugins, with a link and a device of this machine.
fn calls(machine: &LabMachine, network: &Value, master: &str, device: &str) -> Vec<Call> {
    let mut plugins = conf::plugins(network);
    let creates_master = has(network, &["ifacer"]);
    for plugin in &mut plugins {
        match plugin["type"].as_str().unwrap() {
            "ifacer" => {}
            "macvlan" | "ipvlan" if creates_master => {}
            "macvlan" | "ipvlan" | "ipoib" => plugin["master"] = json!(master),
            "sriov" | "ib-sriov" | "rdma" => plugin["deviceID"] = json!(device),
            other => panic!("an example with the plugin {other}"),
        }
        if plugin.get("ipam").is_some() {
            plugin["ipam"]["poolsDir"] = json!(conf::copy_pools(machine.node.state_dir().parent().unwrap()));
        }
    }
    plugins.iter().map(|plugin| machine.node.plugin(plugin["type"].as_str().unwrap()).conf(plugin)).collect()
}

fn is_beside_a_cluster_network(machine: &LabMachine, network: &Value, master: &str, device: &str) {
    let (pod, far) = (machine.node.pod("a"), machine.node.pod("far"));
    let cluster = ClusterNetwork::of(&pod, &far);
    let mut result = Value::Null;
    let calls = calls(machine, network, master, device).into_iter().map(|call| call.pod(&pod));
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

/// Whether a network has a plugin of one of these types.
fn has(network: &Value, types: &[&str]) -> bool {
    conf::plugins(network).iter().any(|plugin| types.iter().any(|name| plugin["type"] == *name))
}

/// Returns the example networks of a mode, of `conf/` and of the plugins' pages: those for Ethernet, and those for InfiniBand.
fn examples(is_shared: bool) -> (Vec<Value>, Vec<Value>) {
    let all = [conf::networks(), conf::page_examples()].concat().into_iter().map(|example| example.network);
    let of_mode = all.filter(|network| has(network, &["macvlan", "ipvlan", "ipoib"]) == is_shared);
    let (infiniband, ethernet): (Vec<_>, Vec<_>) =
        of_mode.partition(|network| has(network, &["ipoib", "ib-sriov"]));
    assert!(!ethernet.is_empty() && !infiniband.is_empty(), "{ethernet:?} {infiniband:?}");
    (ethernet, infiniband)
}

/// Returns those of this run.
fn share_of(examples: &[Value]) -> impl Iterator<Item = &Value> {
    let share = Share::of_tests_of(&["conf", "plugins/main", "plugins/meta"]);
    share.of_list("examples", examples.len()).map(|index| &examples[index])
}

fn ethernet_examples(machine: &LabMachine, examples: &[Value]) {
    let vf = machine.vf("eth1", 2);
    share_of(examples).for_each(|network| is_beside_a_cluster_network(machine, network, "eth0", &vf.pci));
}

fn infiniband_examples(lab: &InfinibandMachine, examples: &[Value]) {
    let (pf, vf) = (lab.pf_link(), lab.vf(2));
    share_of(examples).for_each(|network| is_beside_a_cluster_network(&lab.machine, network, &pf, &vf.pci));
}

#[test]
fn invariant_12_every_example_of_shared_mode_is_attached_and_detached_beside_a_cluster_network() {
    let (ethernet, infiniband) = examples(true);
    ethernet_examples(&LabMachine::shared(), &ethernet);
    infiniband_examples(&InfinibandMachine::shared(), &infiniband);
}

#[test]
fn invariant_12_every_other_example_is_attached_and_detached_beside_a_cluster_network() {
    let (ethernet, infiniband) = examples(false);
    ethernet_examples(&LabMachine::exclusive(), &ethernet);
    infiniband_examples(&InfinibandMachine::exclusive(), &infiniband);
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
