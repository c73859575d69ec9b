//! The parent of a macvlan: the key `master`.

use serde_json::json;
use testkit::Observe;

use silkrail_tests::rail::{RailNode, ipam};

/// A configuration without `master`.
fn without_master() -> serde_json::Value {
    json!({"master": null})
}

#[test]
fn case_039_the_default_master_is_the_link_of_the_default_route() {
    let rail = RailNode::new();
    let spare = rail.node.pod("spare");
    rail.node.cable("rail1", &spare, "port1");
    rail.node.run_ip("address add 10.7.0.2/24 dev rail1");
    rail.node.run_ip("route add default via 10.7.0.1 dev rail1");
    rail.macvlan(&without_master()).add().ok();
    let index = rail.node.link("rail1").unwrap()["ifindex"].clone();
    assert_eq!(rail.pod.link("net1").unwrap()["link_index"], index);
}

#[test]
fn check_needs_no_default_route_any_more() {
    let rail = RailNode::new();
    rail.node.run_ip("-6 route add default via fe80::1 dev rail0");
    let call = rail.macvlan(&without_master());
    let result = call.add().ok();
    call.check_after(&result).done();
    rail.node.run_ip("-6 route delete default");
    call.check_after(&result).done();
    rail.pod.run_ip("link delete net1");
    call.check_after(&result).error(103);
}

#[test]
fn case_039_an_ipv6_default_route_is_sufficient() {
    let rail = RailNode::new();
    rail.node.run_ip("-6 route add default via fe80::1 dev rail0");
    rail.macvlan(&without_master()).add().ok();
}

#[test]
fn case_040_without_a_master_and_a_default_route_add_fails() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    assert_eq!(rail.macvlan(&without_master()).add().error(7).msg, "no default route interface found");
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_040_a_default_route_of_another_table_does_not_count() {
    let rail = RailNode::new();
    rail.node.run_ip("address add 10.7.0.2/24 dev rail0");
    rail.node.run_ip("route add default via 10.7.0.1 dev rail0 table 100");
    assert_eq!(rail.macvlan(&without_master()).add().error(7).msg, "no default route interface found");
}

#[test]
fn case_053_a_missing_master_fails_add_and_status_but_not_del() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"master": "rail9"}));
    call.add().error(7).says(&["failed to lookup master \"rail9\"", "Link not found"]);
    call.status().error(50).says(&["rail9"]);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_053_del_needs_no_master_any_more() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    rail.macvlan(&json!({})).add().ok();
    rail.macvlan(&json!({"master": "rail9"})).del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_master_is_found_by_its_altnames_of_any_length() {
    let rail = RailNode::new();
    for altname in ["enp1s0", "enxb8cef600112233np0"] {
        rail.node.run_ip(&format!("link property add dev rail0 altname {altname}"));
        let call = rail.macvlan(&json!({"master": altname}));
        call.status().done();
        let result = call.add().ok();
        assert_eq!(rail.pod.link("net1").unwrap()["link_index"], rail.node.link("rail0").unwrap()["ifindex"]);
        call.check_after(&result).done();
        call.del().done();
    }
}

#[test]
fn the_links_that_can_be_a_master_are_listed_if_the_name_is_wrong() {
    let rail = RailNode::new();
    let refusal = rail.macvlan(&json!({"master": "rail9"})).add().error(7);
    assert!(refusal.details.contains("hostNetwork"), "as in a container: {refusal:?}");
    rail.node.run_ip("link add rail7 type bridge");
    let refusal = rail.macvlan(&json!({"master": "rail9"})).add().error(7);
    assert!(
        refusal.details.ends_with("link of the node (`ip link`): rail7"),
        "without lo and veths of pods: {refusal:?}"
    );
    let refusal = rail.macvlan(&json!({"master": "a".repeat(128)})).add().error(7);
    refusal.says(&["master", "longer than 127 bytes"]);
}

#[test]
fn case_055_with_link_in_container_the_master_is_the_pods() {
    let rail = RailNode::new();
    let far = rail.node.pod("far");
    rail.pod.cable("eth0", &far, "eth1");
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"master": "eth0", "linkInContainer": true}));
    let result = call.add().ok();
    assert_eq!(rail.pod.link("net1").unwrap()["link"], "eth0");
    call.check_after(&result).done();
    call.status().done();
    call.del().done();
    rail.node.snapshot().assert_is(&before);
    // Links of the host are not found.
    rail.macvlan(&json!({"linkInContainer": true})).add().error(7).says(&["rail0"]);
    rail.macvlan(&json!({"master": "eth0", "linkInContainer": false})).add().error(7).says(&["eth0"]);
}

#[test]
fn case_055_with_link_in_container_the_default_route_is_the_pods() {
    let rail = RailNode::new();
    let far = rail.node.pod("far");
    rail.pod.cable("eth0", &far, "eth1");
    let call = rail.macvlan(&json!({"master": null, "linkInContainer": true, "ipam": ipam(&["10.7.0.10"])}));
    assert_eq!(call.add().error(7).msg, "no default route interface found");
    rail.pod.run_ip("address add 10.9.0.2/24 dev eth0");
    rail.pod.run_ip("route add default via 10.9.0.1 dev eth0");
    // The pod already has a default route, so this attachment adds none.
    let call = call.with(
        "ipam",
        &json!({"type": "silkrail-ipam", "clean_gateway": true, "pools": ipam(&["10.7.0.10"])["pools"]}),
    );
    call.add().ok();
    assert_eq!(rail.pod.link("net1").unwrap()["link"], "eth0");
}

#[test]
fn a_bridge_port_is_refused_as_master_and_nothing_is_left() {
    let rail = RailNode::new();
    rail.node.run_ip("link add br0 type bridge");
    rail.node.run_ip("link set rail0 master br0");
    let before = rail.node.snapshot();
    // A bridge port already has an rx_handler: the bridge.
    rail.macvlan(&json!({})).add().refusal();
    rail.node.snapshot().assert_is(&before);
}
