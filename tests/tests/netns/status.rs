//! STATUS: if an ADD could not succeed, it fails with code 50 and the reason.

use std::fs;

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe};

use silkrail_tests::{
    rail::{RailNode, ip, merged, pool, pool6},
    reboot::store,
};

/// The error of STATUS for full pools with `statusFailsWhenFull`.
fn exhausted(rail: &RailNode, pools: &Value) -> testkit::Refusal {
    rail.ipam(&strict(pools)).status().error(50)
}

fn strict(ipam: &Value) -> Value {
    merged(ipam.clone(), &json!({"statusFailsWhenFull": true}))
}

#[test]
fn status_fails_with_a_full_pool_on_request_and_succeeds_after_a_release() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool("rail", &["10.7.0.10"])]});
    rail.ipam(&pools).status().done();
    let call = rail.ipam(&pools);
    call.add().ok();
    let before = rail.node.snapshot();
    exhausted(&rail, &pools).says(&["all IP addresses used out", "rail", "extend its ips"]);
    rail.node.snapshot().assert_is(&before);
    rail.ipam(&pools).status().done();
    call.del().done();
    rail.ipam(&strict(&pools)).status().done();
}

#[test]
fn status_counts_a_pool_that_is_limited_to_namespaces() {
    let rail = RailNode::new();
    let mut of_ai = pool("rail", &["10.7.0.10"]);
    of_ai["namespaceName"] = json!(["ai"]);
    let call = rail.ipam(&json!({"pools": [of_ai]}));
    call.status().done();
    call.add().error(101).says(&["namespaceName", "K8S_POD_NAMESPACE"]);
    call.args("K8S_POD_NAMESPACE=ai;K8S_POD_NAME=a").add().ok();
}

#[test]
fn a_main_plugin_reports_that_its_pool_is_full() {
    let rail = RailNode::new();
    let ipam = silkrail_tests::rail::ipam(&["10.7.0.10"]);
    let call = rail.macvlan(&json!({"ipam": strict(&ipam)}));
    call.status().done();
    call.add().ok();
    call.status().error(50).says(&["all IP addresses used out"]);
    rail.layer_2(&json!({})).status().done();
}

#[test]
fn another_pool_of_the_family_is_enough_and_each_family_needs_one() {
    let rail = RailNode::new();
    let (first, second) = (pool("first", &["10.7.0.10"]), pool("second", &["10.7.0.11"]));
    let two = json!({"pools": [first.clone(), second], "default_ipv4_ippool": ["first", "second"]});
    rail.ipam(&two).container("a").add().ok();
    rail.ipam(&two).status().done();
    rail.ipam(&two).container("b").add().ok();
    exhausted(&rail, &two).says(&["first", "second", "all IP addresses used out"]);
    let both = json!({"pools": [first, pool6("six", &["fd00:7::a-fd00:7::f"])]});
    exhausted(&rail, &both).says(&["first"]);
}

#[test]
fn status_reads_the_claims_and_not_the_map() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.11"])]});
    let given: Vec<_> = ["a", "b"].map(|id| ip(&rail.ipam(&pools).container(id).add().ok())).into();
    exhausted(&rail, &pools);
    let store = store(&rail.node);
    fs::remove_file(store.join("claims").join(&given[0])).unwrap();
    rail.ipam(&pools).status().done();
    fs::write(store.join("maps/rail"), "garbage").unwrap();
    rail.ipam(&pools).status().done();
    assert_eq!(fs::read_to_string(store.join("maps/rail")).unwrap(), "garbage", "STATUS writes nothing");
}

#[test]
fn an_unreadable_store_is_reported() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool("rail", &["10.7.0.10"])]});
    let store = store(&rail.node);
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("claims"), "").unwrap();
    exhausted(&rail, &pools).says(&["claims"]);
}

#[test]
fn sriov_reports_a_node_without_vfs() {
    let rail = RailNode::new();
    // The PCI devices of the machine are hidden from this node.
    rail.node.run("mount", &["-t", "tmpfs", "tmpfs", "/sys/bus/pci/devices"]);
    let conf = json!({"cniVersion": "1.1.0", "name": "rail", "type": "sriov", "ipam": {}});
    let call = rail.node.plugin("sriov").conf(&conf);
    let refusal = call.status().error(50);
    refusal.says(&["no VF exists on this node"]);
    assert!(refusal.details.contains("sriov_numvfs"), "{refusal:?}");
    let gone = call.with("deviceID", &json!("0000:ff:1f.7")).status().error(50);
    gone.says(&["0000:ff:1f.7", "no PCI device"]);
    fs::create_dir("/sys/bus/pci/devices/0000:ff:1f.7").unwrap();
    std::os::unix::fs::symlink("../0000:ff:00.0", "/sys/bus/pci/devices/0000:ff:1f.7/physfn").unwrap();
    call.status().done();
}

#[test]
fn a_kernel_without_ipv6_is_named_with_its_boot_parameter_before_any_pod_has_an_address() {
    let rail = RailNode::new();
    let pools = [pool("four", &["10.7.0.10"]), pool6("six", &["fd00:7::a"])];
    let dual = rail.macvlan(&json!({"ipam": {"type": "silkrail-ipam", "pools": pools}}));
    dual.status().done();
    // As `inet6_init` of a kernel with this parameter leaves it: without any sysctl of IPv6.
    rail.node.run("mount", &["-t", "tmpfs", "tmpfs", "/proc/sys/net"]);
    let disable = rail.node.state_dir().with_file_name("disable");
    fs::write(&disable, "1\n").unwrap();
    let parameter = "/sys/module/ipv6/parameters/disable";
    rail.node.run("mount", &["--bind", disable.to_str().unwrap(), parameter]);
    let fake = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "fd00:7::5/64"}]}));
    for refusal in [dual.status().error(50), dual.add().error(2), rail.with_ipam(&fake).add().error(2)] {
        refusal.says(&["IPv6", "the kernel has no IPv6", "booted with ipv6.disable=1"]);
        assert!(refusal.details.contains("remove ipv6.disable=1"), "{refusal:?}");
    }
    assert!(rail.pod.link("net1").is_none());
    fs::write(disable, "0\n").unwrap();
    dual.add().error(2).says(&["module ipv6 is not loaded"]);
    rail.ipam(&json!({"pools": [pool("four", &["10.7.0.10"])]})).status().done();
}

#[test]
fn status_uses_the_log_settings_of_the_configuration() {
    let rail = RailNode::new();
    for call in [rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])]})), rail.macvlan(&json!({}))] {
        call.with("logFile", &json!("relative")).status().error(7).says(&["logFile", "absolute path"]);
        let log = rail.node.log_file("log");
        call.with("logFile", &json!(log)).status().done();
        assert!(log.exists());
        fs::remove_file(log).unwrap();
    }
}
