//! Edge cases: settings that the kernel rejects, and names of the maximum length.

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::rail::RailNode;

#[test]
fn a_master_that_is_down_does_not_keep_a_pod_from_starting() {
    let rail = RailNode::new();
    rail.node.run_ip("link set rail0 down");
    rail.macvlan(&json!({})).add().ok();
    rail.node.run_ip("link set rail0 up");
    let is_up = || rail.pod.link("net1").is_some_and(|link| link["operstate"] == "UP");
    wait_until("the pod's link follows its master", is_up);
}

#[test]
fn a_second_link_on_a_passthru_master_is_refused_by_name_and_nothing_is_left() {
    let rail = RailNode::new();
    rail.layer_2(&json!({"mode": "passthru"})).add().ok();
    let before = rail.node.snapshot();
    let other = rail.node.pod("b");
    let refusal = rail.macvlan(&json!({})).pod(&other).container("b").add().refusal();
    refusal.says(&["rail0"]);
    drop(other);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_mac_address_that_another_pod_on_the_master_has_is_refused_and_nothing_is_left() {
    let rail = RailNode::new();
    let conf = json!({"mac": "c2:11:22:33:44:55"});
    rail.macvlan(&conf).add().ok();
    let other = rail.node.pod("b");
    let before = rail.node.snapshot();
    rail.macvlan(&conf).pod(&other).container("b").add().refusal().says(&["c2:11:22:33:44:55"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn the_name_of_the_loopback_interface_is_in_use() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    rail.macvlan(&json!({})).ifname("lo").add().error(102).says(&["interface lo already exists"]);
    rail.macvlan(&json!({})).ifname("lo").del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_interface_name_with_a_percent_sign_is_refused() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for name in ["net%d", "%d", "net%", "%s"] {
        rail.macvlan(&json!({})).ifname(name).add().error(4).says(&["interface name contains %"]);
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_name_that_the_kernel_reserves_is_refused_and_nothing_is_left() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for name in ["all", "default"] {
        rail.macvlan(&json!({})).ifname(name).add().refusal().says(&[name]);
        rail.node.snapshot().assert_is(&before);
        rail.macvlan(&json!({})).ifname(name).del().done();
    }
}

#[test]
fn the_longest_names_fit_into_every_file_of_state() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call =
        rail.macvlan(&json!({"name": "n".repeat(300)})).container(&"c".repeat(200)).ifname("a23456789012345");
    let result = call.add().ok();
    call.check_after(&result).done();
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_configuration_that_no_journal_can_contain_is_refused_and_leaves_nothing() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"x": "y".repeat(1 << 20)}));
    call.add().error(5).says(&["longer than 1048576 bytes", "shorten"]);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}
