//! `ipoib`: a pod gets an IP over InfiniBand link of its own on a port of the host.

use serde_json::{Value, json};
use testkit::{Call, Observe, Share, TestPod};

use silkrail_tests::infiniband::InfinibandMachine;

fn ipoib(machine: &InfinibandMachine, pod: &TestPod, more: &Value) -> Call {
    let mut conf = json!({"master": machine.pf_link()});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    machine.plugin("ipoib", &conf).pod(pod)
}

/// Returns a setting of an IPoIB link, as `ip -d -j link` prints it.
fn setting(link: &Value, key: &str) -> Value {
    link["linkinfo"]["info_data"][key].clone()
}

#[test]
fn case_123_a_child_has_partition_and_mode_of_its_master_and_is_deleted() {
    let machine = InfinibandMachine::shared();
    let before = machine.machine.node.snapshot();
    for ends in [false, true] {
        let pod = machine.machine.node.pod("a");
        let call = ipoib(&machine, &pod, &json!({}));
        let result = call.add().ok();
        let link = pod.link("net1").unwrap();
        assert_eq!(link["linkinfo"]["info_kind"], "ipoib", "{link}");
        assert_eq!(setting(&link, "key"), "0xffff");
        assert_eq!(setting(&link, "mode"), "datagram");
        assert_eq!(setting(&link, "umcast"), "0001");
        assert_eq!(result["interfaces"][0]["mac"], link["address"]);
        assert_eq!(pod.addresses("net1").len(), 1);
        call.check_after(&result).done();
        let pod = (!ends).then_some(pod);
        call.del().done();
        call.del().done();
        drop(pod);
        machine.machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn case_125_a_child_that_the_kernel_moved_to_the_host_is_deleted_there() {
    let machine = InfinibandMachine::shared();
    let before = machine.machine.node.snapshot();
    // An unrelated link has the name of the pod's.
    let parent = machine.pf_link();
    machine.machine.node.run_ip(&format!("link add link {parent} name net1 type ipoib pkey 0x8001"));
    let other = machine.machine.node.link("net1").unwrap();
    let pod = machine.machine.node.pod("a");
    let call = ipoib(&machine, &pod, &json!({"pkey": "0x8002"}));
    call.add().ok();
    pod.run_ip("link set net1 down");
    pod.run_ip("link set net1 name renamed");
    drop(pod);
    call.del().done();
    assert_eq!(machine.machine.node.link("net1").unwrap()["address"], other["address"]);
    machine.machine.node.run_ip("link delete net1");
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_child_that_the_pod_changed_and_moved_is_deleted() {
    let machine = InfinibandMachine::shared();
    let before = machine.machine.node.snapshot();
    let call = |pod: &TestPod| ipoib(&machine, pod, &json!({}));
    for ends in [false, true] {
        let (pod, other) = (machine.machine.node.pod("a"), machine.machine.node.pod("b"));
        call(&pod).add().ok();
        pod.run_ip("link set net1 down");
        // The number of the queue pair stays; the rest of the address is the pod's to change.
        let address = pod.link("net1").unwrap()["address"].as_str().unwrap().to_owned();
        let (kept, _) = address.split_at(address.len() - "00:00:00:00:00:00:00:00".len());
        pod.run_ip(&format!("link set net1 address {kept}02:00:00:00:00:00:00:99"));
        pod.run_ip(&format!("link set net1 name renamed netns {}", other.path().display()));
        // The namespace to which it was moved ends before the DEL, or after it.
        let other = (!ends).then_some(other);
        call(&pod).del().done();
        drop((pod, other));
        machine.machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn a_partition_can_be_configured() {
    let machine = InfinibandMachine::shared();
    let pod = machine.machine.node.pod("a");
    for (pkey, expected) in [(json!("0x8002"), "0x8002"), (json!("0x0003"), "0x8003"), (json!(1), "0x8001")] {
        let call = ipoib(&machine, &pod, &json!({"pkey": pkey}));
        let result = call.add().ok();
        assert_eq!(setting(&pod.link("net1").unwrap(), "key"), expected);
        call.check_after(&result).done();
        let other = ipoib(&machine, &pod, &json!({"pkey": "0x7"}));
        other.check_after(&result).error(103).says(&["expected the pkey 0x8007"]);
        call.del().done();
    }
    for invalid in [json!("0x8000"), json!(0), json!("0x10000"), json!("x"), json!(-1), json!("0x")] {
        ipoib(&machine, &pod, &json!({"pkey": invalid})).add().error(7).says(&["pkey", "0x7fff"]);
    }
}

#[test]
fn case_124_the_mtu_is_the_configured_one_or_that_of_the_master() {
    let machine = InfinibandMachine::shared();
    let (before, pod) = (machine.machine.node.snapshot(), machine.machine.node.pod("a"));
    let mtu = |more: &Value| {
        let call = ipoib(&machine, &pod, more);
        let result = call.add().ok();
        call.del().done();
        result["interfaces"][0]["mtu"].clone()
    };
    assert_eq!(mtu(&json!({"mtu": 1496})), 1496);
    let parent = machine.pf_link();
    machine.machine.node.run_ip(&format!("link set {parent} mtu 2044"));
    assert_eq!(mtu(&json!({})), 2044);
    assert_eq!(mtu(&json!({"mtu": 4092})), 4092, "a child may have a larger MTU than its master");
    let refused = ipoib(&machine, &pod, &json!({"mtu": 65520})).add().error(7);
    refused.says(&["invalid MTU 65520", &parent]);
    assert!(pod.link("net1").is_none());
    machine.machine.node.run_ip(&format!("link set {parent} mtu 4092"));
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_122_the_master_must_be_the_ipoib_link_of_a_port() {
    let machine = InfinibandMachine::shared();
    let pod = machine.machine.node.pod("a");
    let refused = |master: Value| ipoib(&machine, &pod, &json!({"master": master})).add().error(7);
    assert_eq!(refused(Value::Null).msg, "host master interface is missing");
    refused(json!("ib77")).says(&["failed to lookup master \"ib77\""]);
    refused(json!("eth0")).says(&["master device is (device) not of type ipoib"]);
    refused(json!("lo")).says(&["not of type ipoib"]);
    let parent = machine.pf_link();
    machine.machine.node.run_ip(&format!("link add link {parent} name child type ipoib pkey 0x8001"));
    refused(json!("child")).says(&["child is itself a child link"]);
    machine.machine.node.run_ip("link delete child");
    for plugin in ["macvlan", "ipvlan"] {
        let call = machine.plugin(plugin, &json!({"master": parent})).pod(&pod);
        call.add().error(7).says(&["is an InfiniBand link"]);
    }
}

#[test]
fn case_126_without_ethernet_there_is_no_dhcp() {
    let machine = InfinibandMachine::shared();
    let pod = machine.machine.node.pod("a");
    let call = ipoib(&machine, &pod, &json!({"ipam": {"type": "dhcp"}}));
    call.add().error(7).says(&["dhcp"]);
    call.del().done();
    assert!(pod.link("net1").is_none());
}

#[test]
fn a_pod_that_requires_rdma_needs_an_active_port() {
    let machine = InfinibandMachine::shared();
    let pod = machine.machine.node.pod("a");
    let call = ipoib(&machine, &pod, &json!({"rdma": {"require": true, "timeoutMs": 100}}));
    call.add().error(100).says(&["did not become active", "subnet manager"]);
    assert!(pod.link("net1").is_none());
    let active = machine.machine.simulate(&machine.pf, "active", "Y");
    call.add().ok();
    let map = machine.machine.node.state_dir().join("podmap/v1");
    let file = std::fs::read_dir(map).unwrap().next().unwrap().unwrap().path();
    let entry: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(entry["rdma"]["mode"], "shared");
    assert_eq!(entry["rdma"]["gids"][0]["type"], "IB", "{entry}");
    call.del().done();
    active.set("N");
}

#[test]
fn invariant_1_ipoib_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = InfinibandMachine::shared();
    let before = machine.machine.node.snapshot();
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/main/ipoib"]).steps(&format!("ipoib {fault}")) {
            let pod = machine.machine.node.pod("a");
            let call = ipoib(&machine, &pod, &json!({"mtu": 1496}));
            let answer = call.clone().fault(&format!("{fault}:{step}")).add();
            let pod = (step % 2 == 0).then_some(pod);
            if fault == "kill" || answer.status.success() {
                call.del().done();
            }
            drop(pod);
            machine.machine.node.snapshot().assert_is(&before);
            if answer.status.success() {
                assert!(step > 4, "only {step} steps were seen");
                break;
            }
        }
    }
}
