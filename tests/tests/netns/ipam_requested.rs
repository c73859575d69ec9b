//! silkrail-ipam: an address that the runtime requests.

use serde_json::{Value, json};
use testkit::{Call, Observe};

use silkrail_tests::rail::{RailNode, ip, ips, merged, pool, pool6};

fn rail_pool() -> Value {
    json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.20"])]})
}

/// The three forms of a request: as a capability (Multus, podman with several), as an argument of the
/// configuration, and in the environment (podman with one).
fn requests(call: &Call, address: &str) -> [Call; 3] {
    [
        call.with("runtimeConfig", &json!({"ips": [address]})),
        call.with("args", &json!({"cni": {"ips": [address]}})),
        call.clone().args(&format!("IgnoreUnknown=1;K8S_POD_NAME=c;IP={address}")),
    ]
}

#[test]
fn a_requested_address_is_allocated_for_every_form_of_request() {
    let rail = RailNode::new();
    for address in ["10.7.0.15", "10.7.0.16/24"] {
        for call in requests(&rail.ipam(&rail_pool()), address) {
            let result = call.add().ok();
            assert_eq!(ip(&result), address.split('/').next().unwrap());
            assert_eq!(result["ips"][0]["address"].as_str().unwrap().split('/').nth(1), Some("24"));
            assert_eq!(call.add().ok(), result, "a repeated ADD");
            call.check().done();
            call.del().done();
        }
    }
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn a_main_plugin_gives_its_pod_the_requested_address() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"runtimeConfig": {"ips": ["10.7.0.17/24"]}}));
    assert_eq!(ip(&call.add().ok()), "10.7.0.17");
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.17/24"]);
}

#[test]
fn a_requested_address_in_use_is_refused_and_the_error_has_its_holder() {
    let rail = RailNode::new();
    let call = rail.ipam(&rail_pool());
    let [holder, ..] = requests(&call, "10.7.0.15");
    holder.container("first").add().ok();
    let before = rail.node.snapshot();
    for call in requests(&call, "10.7.0.15") {
        let refusal = call.add().error(101);
        refusal.says(&["requested IP address 10.7.0.15", "already in use by first@net1"]);
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_requested_address_that_no_pool_gives_is_refused_with_the_reason() {
    let rail = RailNode::new();
    let excluding = merged(pool("rail", &["10.7.0.10-10.7.0.20"]), &json!({"excludeIPs": ["10.7.0.12"]}));
    let theirs = merged(pool("theirs", &["10.7.0.40"]), &json!({"nodeName": ["node2"]}));
    let other = pool("other", &["10.7.0.50"]);
    let reserved = json!({"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP",
        "metadata": {"name": "r"}, "spec": {"ips": ["10.7.0.13"]}});
    let call = rail.ipam(&json!({
        "nodeName": "node1", "pools": [excluding, theirs, other, reserved], "default_ipv4_ippool": ["rail", "theirs"]
    }));
    let before = rail.node.snapshot();
    for (address, why) in [
        ("10.7.0.12", "excludeIPs of IPPool rail"),
        ("10.7.0.13", "SpiderReservedIP"),
        ("10.7.0.1", "gateway of IPPool rail"),
        ("10.7.0.30", "rail contains 10.7.0.10-10.7.0.11, 10.7.0.14-10.7.0.20"),
        ("10.7.0.40", "it belongs to IPPool theirs, which cannot be used: nodeName"),
        ("10.7.0.50", "it belongs to IPPool other, which this network does not use"),
        ("fd00:7::a", "no IPv6 IPPool"),
    ] {
        for call in requests(&call, address) {
            call.add().error(101).says(&[&format!("requested IP address {address}"), why]);
        }
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn the_error_of_an_invalid_requested_address_has_its_key() {
    let rail = RailNode::new();
    let call = rail.ipam(&rail_pool());
    call.with("runtimeConfig", &json!({"ips": ["10.7.0.15", "x"]}))
        .add()
        .error(7)
        .says(&["runtimeConfig.ips[1]", "x"]);
    call.with("args", &json!({"cni": {"ips": "10.7.0.15"}})).add().error(7).says(&["args.cni.ips", "a list"]);
    call.clone().args("IP=10.7.0").add().error(4).says(&["CNI_ARGS", "IP", "10.7.0"]);
    // DEL ignores it.
    call.args("IP=10.7.0").del().done();
}

#[test]
fn both_families_and_several_addresses_can_be_requested() {
    let rail = RailNode::new();
    let pools =
        json!({"pools": [pool("four", &["10.7.0.10-10.7.0.20"]), pool6("six", &["fd00:7::a-fd00:7::f"])]});
    let request = |addresses: Value| rail.ipam(&pools).with("runtimeConfig", &json!({ "ips": addresses }));
    let call = request(json!(["fd00:7::c/64", "10.7.0.15"]));
    assert_eq!(ips(&call.add().ok()), ["10.7.0.15", "fd00:7::c"]);
    call.del().done();
    // The other family gets any address.
    let call = request(json!(["fd00:7::d"]));
    let given = ips(&call.add().ok());
    assert!(given.len() == 2 && given[1] == "fd00:7::d", "{given:?}");
    call.del().done();
    let call = request(json!(["10.7.0.15", "10.7.0.14", "10.7.0.15/24"]));
    assert_eq!(ips(&call.add().ok())[..2], ["10.7.0.15", "10.7.0.14"]);
    call.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn invariant_1_the_first_requested_address_is_released_if_the_second_is_in_use() {
    let rail = RailNode::new();
    let request = |id: &str, addresses: Value| {
        rail.ipam(&rail_pool()).with("runtimeConfig", &json!({ "ips": addresses })).container(id)
    };
    request("first", json!(["10.7.0.15"])).add().ok();
    let before = rail.node.snapshot();
    request("second", json!(["10.7.0.14", "10.7.0.15"])).add().error(101).says(&["10.7.0.15", "first@net1"]);
    rail.node.snapshot().assert_is(&before);
}

fn of_pod(call: &Call, container: &str) -> Call {
    call.clone().args("K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;K8S_POD_UID=1111-1111").container(container)
}

#[test]
fn a_pods_new_sandbox_gets_the_requested_address_instead_of_the_former_one() {
    let rail = RailNode::new();
    let call = rail.ipam(&rail_pool());
    of_pod(&call, "former").add().ok();
    let rail = rail.next_pod("a2");
    let request = call.with("runtimeConfig", &json!({"ips": ["10.7.0.18"]})).pod(&rail.pod);
    assert_eq!(ip(&of_pod(&request, "new").add().ok()), "10.7.0.18");
    of_pod(&call, "former").del().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.18"]);
    of_pod(&request, "new").del().done();
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn a_pods_new_sandbox_keeps_the_requested_address_of_the_former() {
    let rail = RailNode::new();
    let call = rail.ipam(&rail_pool()).with("runtimeConfig", &json!({"ips": ["10.7.0.18"]}));
    of_pod(&call, "former").add().ok();
    let rail = rail.next_pod("a2");
    assert_eq!(ip(&of_pod(&call, "new").pod(&rail.pod).add().ok()), "10.7.0.18");
    of_pod(&call, "former").del().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.18"]);
}

#[test]
fn a_pods_new_sandbox_does_not_keep_an_address_of_a_pool_that_is_now_disabled() {
    let rail = RailNode::new();
    let with = |disabled: bool| {
        let first = merged(pool("first", &["10.7.0.10"]), &json!({ "disable": disabled }));
        rail.ipam(&json!({"pools": [first, pool("second", &["10.7.0.20"])]}))
    };
    assert_eq!(ip(&of_pod(&with(false), "former").add().ok()), "10.7.0.10");
    let now = with(true);
    let rail = rail.next_pod("a2");
    assert_eq!(ip(&of_pod(&now, "new").pod(&rail.pod).add().ok()), "10.7.0.20");
    of_pod(&now, "former").del().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.20"]);
}

#[test]
fn a_pods_new_sandbox_keeps_its_ipv6_address_if_its_ipv4_pool_was_changed() {
    let rail = RailNode::new();
    let with = |ipv4: &str| {
        rail.ipam(&json!({"pools": [pool("rail", &[ipv4]), pool6("rail6", &["fd00:7::5-fd00:7::9"])]}))
    };
    let (former, now) = (with("10.7.0.10"), with("10.7.0.20"));
    assert_eq!(ips(&of_pod(&former, "former").add().ok()), ["10.7.0.10", "fd00:7::5"]);
    let rail = rail.next_pod("a2");
    assert_eq!(ips(&of_pod(&now, "new").pod(&rail.pod).add().ok()), ["10.7.0.20", "fd00:7::5"]);
}

#[test]
fn a_requested_address_of_a_stale_attachment_is_allocated() {
    let rail = RailNode::new();
    let [call, ..] = requests(&rail.ipam(&rail_pool()), "10.7.0.15");
    call.clone().container("stale").add().ok();
    let rail = rail.next_pod("a2");
    assert_eq!(ip(&call.container("new").pod(&rail.pod).add().ok()), "10.7.0.15");
}
