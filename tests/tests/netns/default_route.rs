//! `defaultRoute`: the pod's default route over a network of Silkrail.

use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe};

use silkrail_tests::{cluster::ClusterNetwork, rail::RailNode};

fn call(rail: &RailNode, result: &Value) -> Call {
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    let ipam = FakeIpam::returning(&rail.node, result);
    rail.with_ipam(&ipam).with("defaultRoute", &json!(true))
}

fn both_families() -> Value {
    json!({
        "ips": [{"address": "10.7.0.5/24", "gateway": "10.7.0.1"}, {"address": "fd00:7::5/64", "gateway": "fd00:7::1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.7.0.9"}],
    })
}

/// The link over which the pod sends to an address outside of its networks.
fn link_to(rail: &RailNode, address: &str) -> String {
    rail.pod.ip(&format!("route get {address}"))[0]["dev"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_default_route_is_taken_and_the_former_one_is_back_after_del() {
    for metrics in [("", ""), ("metric 100", "metric 100"), ("", "metric 2")] {
        let rail = RailNode::new();
        let far = rail.node.pod("far");
        let _cluster = ClusterNetwork::with(&rail.pod, &far, metrics.0, metrics.1);
        let call = call(&rail, &both_families());
        let before = rail.node.snapshot();
        let result = call.add().ok();
        assert_eq!(
            ["192.0.2.1", "2001:db8::1"].map(|to| link_to(&rail, to)),
            ["net1", "net1"],
            "{metrics:?}"
        );
        let gateways: Vec<_> =
            result["routes"].as_array().unwrap().iter().map(|route| route["gw"].clone()).collect();
        assert_eq!(gateways, ["10.7.0.1", "fd00:7::1"]);
        call.check_after(&result).done();
        call.del().done();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn a_pod_without_another_network_gets_a_default_route() {
    let rail = RailNode::new();
    // The default route of another table, which none can precede, does not matter.
    rail.pod.run_ip("link set lo up");
    rail.pod.run_ip("-6 route add default dev lo table 100 metric 1");
    let call = call(&rail, &both_families());
    let result = call.add().ok();
    assert_eq!(["192.0.2.1", "2001:db8::1"].map(|to| link_to(&rail, to)), ["net1", "net1"]);
    call.check_after(&result).done();
}

#[test]
fn check_reports_that_another_default_route_precedes_it() {
    let rail = RailNode::new();
    let far = rail.node.pod("far");
    let _cluster = ClusterNetwork::of(&rail.pod, &far);
    let call = call(&rail, &both_families());
    let result = call.add().ok();
    rail.pod.run_ip("-6 route add default dev eth0 metric 1");
    call.check_after(&result).error(103).says(&["default route", "fd00:7::1", "net1"]);
    rail.pod.run_ip("-6 route del default dev eth0 metric 1");
    call.check_after(&result).done();
    rail.pod.run_ip("route del default via 10.7.0.1");
    call.check_after(&result).error(103).says(&["default route", "10.7.0.1", "net1"]);
}

#[test]
fn without_a_gateway_the_add_is_refused() {
    let rail = RailNode::new();
    let call = call(&rail, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let before = rail.node.snapshot();
    call.add().error(7).says(&["defaultRoute", "no gateway"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_ipv6_default_route_that_none_can_precede_is_reported() {
    let rail = RailNode::new();
    let far = rail.node.pod("far");
    let _cluster = ClusterNetwork::with(&rail.pod, &far, "", "metric 1");
    let call = call(&rail, &both_families());
    let before = rail.node.snapshot();
    call.add().error(102).says(&["defaultRoute", "metric 1"]);
    rail.node.snapshot().assert_is(&before);
}
