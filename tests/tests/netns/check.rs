//! CHECK: compares the attachment with the result of ADD.

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe};

use silkrail_tests::rail::RailNode;

/// An attachment, the call that created it, and its result.
fn attached() -> (RailNode, Call, Value) {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"mac": "c2:11:22:33:44:55"}));
    let result = call.add().ok();
    (rail, call, result)
}

#[test]
fn case_051_an_unchanged_attachment_passes() {
    let rail = RailNode::new();
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        let call = rail.macvlan(&json!({"cniVersion": version}));
        let result = call.add().ok();
        let before = rail.node.snapshot();
        call.check_after(&result).done();
        rail.node.snapshot().assert_is(&before);
        call.with("prevResult", &result).del().done();
    }
}

#[test]
fn case_052_a_deleted_link_is_reported() {
    let (rail, call, result) = attached();
    rail.pod.run_ip("link delete net1");
    call.check_after(&result).error(103).says(&["net1", "gone"]);
}

#[test]
fn case_052_another_link_of_the_same_name_is_reported() {
    let (rail, call, result) = attached();
    rail.pod.run_ip("link delete net1");
    rail.pod.run_ip("link add net1 address c2:11:22:33:44:55 type veth peer name other");
    call.check_after(&result).error(103).says(&["net1", "veth"]);
}

#[test]
fn case_052_another_mac_address_is_reported() {
    let (rail, call, result) = attached();
    rail.pod.run_ip("link set net1 address c2:11:22:33:44:66");
    call.check_after(&result).error(103).says(&["c2:11:22:33:44:66", "c2:11:22:33:44:55"]);
}

#[test]
fn case_052_a_removed_address_is_reported() {
    let (rail, call, result) = attached();
    let address = result["ips"][0]["address"].as_str().unwrap();
    rail.pod.run_ip(&format!("address delete {address} dev net1"));
    call.check_after(&result).error(103).says(&[address]);
}

#[test]
fn case_052_a_removed_route_is_reported() {
    let (rail, call, result) = attached();
    rail.pod.run_ip("route delete default");
    call.check_after(&result).error(103).says(&["0.0.0.0/0"]);
}

#[test]
fn each_address_and_each_route_is_checked() {
    for (change, expected) in [
        ("address delete 10.7.1.5/24 dev net1", "10.7.1.5/24"),
        ("address delete fd00:7::5/64 dev net1", "fd00:7::5/64"),
        ("route delete 10.9.0.0/16", "10.9.0.0/16"),
        ("-6 route delete fd00:9::/64", "fd00:9::/64"),
    ] {
        let rail = RailNode::new();
        rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
        let ips = ["10.7.0.5/24", "10.7.1.5/24", "fd00:7::5/64"].map(|address| json!({"address": address}));
        let routes =
            ["10.8.0.0/16", "10.9.0.0/16", "fd00:8::/64", "fd00:9::/64"].map(|dst| json!({"dst": dst}));
        let ipam = FakeIpam::returning(&rail.node, &json!({"ips": ips, "routes": routes}));
        let call = rail.with_ipam(&ipam);
        let result = call.add().ok();
        call.check_after(&result).done();
        rail.pod.run_ip(change);
        call.check_after(&result).error(103).says(&[expected]);
    }
}

#[test]
fn case_052_another_mode_is_reported() {
    let (rail, call, result) = attached();
    rail.pod.run_ip("link set net1 type macvlan mode private");
    call.check_after(&result).error(103).says(&["private", "bridge"]);
}

#[test]
fn case_052_a_missing_prev_result_is_an_error() {
    let (_rail, call, _) = attached();
    assert_eq!(call.check().error(7).msg, "required prevResult missing");
}

#[test]
fn case_052_a_prev_result_of_another_sandbox_is_an_error() {
    let (rail, call, mut result) = attached();
    result["interfaces"][0]["sandbox"] = json!("/run/netns/other");
    let netns = rail.pod.path().display().to_string();
    let refusal = call.check_after(&result).error(7);
    refusal.says(&["sandbox in prevResult /run/netns/other doesn't match configured netns", &netns]);
}

#[test]
fn case_052_a_prev_result_without_the_interface_is_an_error() {
    let (_rail, call, mut result) = attached();
    result["interfaces"][0]["name"] = json!("net7");
    call.check_after(&result).error(7).says(&["net1"]);
}

#[test]
fn case_052_a_deleted_master_is_reported() {
    let (rail, call, result) = attached();
    // The kernel deletes the links on it too.
    rail.node.run_ip("link delete rail0");
    call.check_after(&result).refusal();
}

#[test]
fn case_052_a_deleted_namespace_is_reported() {
    let (rail, call, result) = attached();
    let RailNode { pod, node: _node, switch: _switch } = rail;
    pod.end();
    call.check_after(&result).error(8);
}

#[test]
fn a_missing_claim_of_the_address_is_reported() {
    let (rail, call, result) = attached();
    let claims = format!("{}/ipam", rail.node.state_dir().display());
    rail.node.run("find", &[claims.as_str(), "-type", "l", "-delete"]);
    call.check_after(&result).error(103).says(&["10.7.0.10", "no longer claimed"]);
}

#[test]
fn what_a_later_plugin_of_the_chain_added_is_not_checked() {
    let (_rail, call, mut result) = attached();
    let others = result["interfaces"].as_array_mut().unwrap();
    others.push(json!({"name": "ifb0", "mac": "c2:00:00:00:00:01"}));
    let ips = result["ips"].as_array_mut().unwrap();
    ips.push(json!({"address": "10.99.0.1/24", "interface": 1}));
    call.check_after(&result).done();
}

#[test]
fn a_prev_result_of_an_incompatible_version_cannot_be_decoded() {
    let (_rail, call, mut result) = attached();
    result["cniVersion"] = json!("0.4.0");
    call.check_after(&result).error(6).says(&["could not parse prevResult", "0.4.0"]);
}
