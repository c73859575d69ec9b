//! Addresses and routes of a pod after ADD, as the kernel reports them.

use std::thread;

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe, TestPod, wait_until};

use silkrail_tests::rail::{RailNode, merged, pool6};

/// A pod after an ADD with this result of the IPAM plugin.
fn pod_with(result: &Value) -> RailNode {
    let rail = RailNode::new();
    // The rail has no other hosts: duplicate address detection is disabled to save time.
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    let ipam = FakeIpam::returning(&rail.node, result);
    rail.with_ipam(&ipam).add().ok();
    rail
}

fn route_to(rail: &RailNode, dst: &str) -> Value {
    let routes = rail.pod.routes("net1");
    let found: Vec<_> = routes.iter().filter(|route| route["dst"] == dst).collect();
    assert_eq!(found.len(), 1, "to {dst}: {routes:?}");
    found[0].clone()
}

#[test]
fn case_026_a_route_uses_its_own_gateway_or_that_of_the_address() {
    let rail = pod_with(&json!({
        "ips": [
            {"address": "10.7.0.5/24", "gateway": "10.7.0.1"},
            {"address": "fd00:7::5/64", "gateway": "fd00:7::1"},
        ],
        "routes": [
            {"dst": "10.8.0.0/16", "gw": "10.7.0.254"}, {"dst": "10.9.0.0/16"},
            {"dst": "fd00:8::/64", "gw": "fd00:7::fe"}, {"dst": "fd00:9::/64"},
        ],
    }));
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.5/24", "fd00:7::5/64"]);
    assert_eq!(route_to(&rail, "10.8.0.0/16")["gateway"], "10.7.0.254");
    assert_eq!(route_to(&rail, "10.9.0.0/16")["gateway"], "10.7.0.1");
    assert_eq!(route_to(&rail, "fd00:8::/64")["gateway"], "fd00:7::fe");
    assert_eq!(route_to(&rail, "fd00:9::/64")["gateway"], "fd00:7::1");
}

#[test]
fn the_next_hop_of_an_ipv6_pool_may_be_link_local() {
    let rail = RailNode::new();
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    let pool = merged(
        pool6("six", &["fd00:7::a-fd00:7::f"]),
        &json!({"gateway": "fe80::1", "routes": [{"dst": "fd00:8::/64", "gw": "fe80::2"}]}),
    );
    let call = rail.macvlan(&json!({"ipam": {"type": "silkrail-ipam", "pools": [pool]}}));
    let result = call.add().ok();
    assert_eq!(route_to(&rail, "default")["gateway"], "fe80::1");
    assert_eq!(route_to(&rail, "fd00:8::/64")["gateway"], "fe80::2");
    call.check_after(&result).done();
    call.del().done();
    let call = call.with("rail", &json!({"table": 1001}));
    let result = call.add().ok();
    assert_eq!(route_to(&rail, "default")["gateway"], "fe80::1");
    call.check_after(&result).done();
}

#[test]
fn case_027_a_route_is_in_its_table_and_has_its_scope() {
    let rail = pod_with(&json!({
        "ips": [{"address": "10.7.0.5/24"}],
        "routes": [{"dst": "10.8.0.0/16", "gw": "10.7.0.1", "table": 5000}, {"dst": "10.9.0.0/16", "scope": 253}],
    }));
    assert_eq!(route_to(&rail, "10.8.0.0/16")["table"], "5000");
    let direct = route_to(&rail, "10.9.0.0/16");
    assert_eq!((&direct["scope"], &direct["gateway"]), (&json!("link"), &Value::Null));
}

#[test]
fn case_027_two_routes_to_one_destination_coexist() {
    let rail = pod_with(&json!({
        "ips": [{"address": "10.7.0.5/24"}],
        "routes": [
            {"dst": "10.8.0.0/16", "gw": "10.7.0.1"},
            {"dst": "10.8.0.0/16", "gw": "10.7.0.2", "priority": 200},
        ],
    }));
    let gateways: Vec<_> = rail.pod.routes("net1").iter().map(|route| route["gateway"].clone()).collect();
    assert_eq!(gateways, [json!("10.7.0.1"), json!("10.7.0.2")]);
}

#[test]
fn case_027_two_next_hops_of_the_same_metric_coexist() {
    let rail = pod_with(&json!({
        "ips": [{"address": "10.7.0.5/24"}],
        "routes": [{"dst": "10.8.0.0/16", "gw": "10.7.0.1"}, {"dst": "10.8.0.0/16", "gw": "10.7.0.2"}],
    }));
    let routes = rail.pod.ip("-4 route show 10.8.0.0/16");
    let text = json!(routes).to_string();
    assert!(text.contains("10.7.0.1") && text.contains("10.7.0.2"), "{text}");
}

#[test]
fn case_028_an_ipv6_address_survives_the_link_going_down() {
    let rail = pod_with(&json!({"ips": [{"address": "fd00:7::5/64"}]}));
    assert_eq!(rail.pod.sysctl("net/ipv6/conf/net1/keep_addr_on_down"), "1");
    rail.pod.run_ip("link set net1 down");
    assert_eq!(rail.pod.addresses("net1"), ["fd00:7::5/64"]);
}

#[test]
fn case_029_ipv6_is_enabled_where_an_address_needs_it() {
    let rail = RailNode::new();
    for place in ["all", "default", "lo"] {
        rail.pod.set_sysctl(&format!("net/ipv6/conf/{place}/disable_ipv6"), "1");
    }
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "fd00:7::5/64"}]}));
    rail.with_ipam(&ipam).add().ok();
    for name in ["lo", "net1"] {
        assert_eq!(rail.pod.sysctl(&format!("net/ipv6/conf/{name}/disable_ipv6")), "0");
    }
    assert_eq!(rail.pod.addresses("net1"), ["fd00:7::5/64"]);
}

#[test]
fn case_030_an_address_of_a_subnet_has_a_broadcast_address_and_one_of_a_pair_has_none() {
    let rail = pod_with(&json!({
        "ips": [{"address": "10.7.0.5/24"}, {"address": "10.7.1.0/31"}, {"address": "10.7.2.1/32"}],
    }));
    let broadcasts: Vec<_> =
        rail.pod.address_infos("net1").iter().map(|info| info["broadcast"].clone()).collect();
    assert_eq!(broadcasts, [json!("10.7.0.255"), Value::Null, Value::Null]);
}

#[test]
fn case_031_a_route_has_the_mtu_and_the_segment_size_it_was_given() {
    let rail = pod_with(&json!({
        "ips": [{"address": "10.7.0.5/24"}],
        "routes": [{"dst": "10.8.0.0/16", "gw": "10.7.0.1", "mtu": 1400, "advmss": 1360, "priority": 77}],
    }));
    let route = route_to(&rail, "10.8.0.0/16");
    assert_eq!(route["metric"], 77);
    let metrics = &route["metrics"][0];
    assert_eq!((&metrics["mtu"], &metrics["advmss"]), (&json!(1400), &json!(1360)));
}

#[test]
fn invariant_1_a_route_the_kernel_refuses_fails_the_add_and_leaves_nothing() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let unreachable =
        json!({"ips": [{"address": "10.7.0.5/24"}], "routes": [{"dst": "10.8.0.0/16", "gw": "192.0.2.1"}]});
    let ipam = FakeIpam::returning(&rail.node, &unreachable);
    rail.with_ipam(&ipam).add().refusal().says(&["10.8.0.0/16"]);
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_next_hop_outside_the_subnets_of_the_pod_is_named_with_them() {
    let rail = RailNode::new();
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    for (address, dst, gateway) in [
        ("10.81.5.5/32", "0.0.0.0/0", "169.254.1.1"),
        ("10.7.0.5/24", "10.8.0.0/16", "192.0.2.1"),
        ("fd00:7::5/128", "::/0", "fd00:8::1"),
    ] {
        let result = json!({"ips": [{"address": address}], "routes": [{"dst": dst, "gw": gateway}]});
        let refusal = rail.with_ipam(&FakeIpam::returning(&rail.node, &result)).add().error(7);
        refusal.says(&[dst, &format!("gateway {gateway}"), address]);
        assert!(refusal.details.contains("prefix length"), "{refusal:?}");
    }
    // The remedy of the error.
    let through = json!({"ips": [{"address": "10.81.5.5/32"}], "routes": [
        {"dst": "169.254.1.1/32"}, {"dst": "0.0.0.0/0", "gw": "169.254.1.1"}]});
    rail.with_ipam(&FakeIpam::returning(&rail.node, &through)).add().ok();
    assert_eq!(route_to(&rail, "default")["gateway"], "169.254.1.1");
}

#[test]
fn an_ipv6_address_that_another_host_has_fails_the_add() {
    let rail = RailNode::new();
    rail.switch.run_ip("address add fd00:7::5/64 dev port0 nodad");
    // Also without duplicate address detection, the kernel adds the route later (net/ipv6/addrconf.c: addrconf_dad_work).
    let has_route = |place: &TestPod| {
        place.ip("-6 route show table local").iter().any(|route| route["dst"] == "fd00:7::5")
    };
    wait_until("the address can be used", || has_route(&rail.switch));
    let before = rail.node.snapshot();
    let result = json!({"ips": [{"address": "fd00:7::5/64", "gateway": "fd00:7::1"}]});
    let ipam = FakeIpam::returning(&rail.node, &result);
    rail.with_ipam(&ipam).add().error(102).says(&["fd00:7::5", "in use by another host"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_ipv6_pod_starts_where_sysctls_cannot_be_written() {
    let rail = RailNode::new();
    rail.node.run("mount", &["-o", "bind,ro", "/proc/sys", "/proc/sys"]);
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "fd00:7::5/64"}]}));
    rail.with_ipam(&ipam).add().ok();
    assert_eq!(rail.pod.addresses("net1"), ["fd00:7::5/64"]);
}

#[test]
fn an_add_fails_and_leaves_nothing_if_ipv6_is_off_and_cannot_be_enabled() {
    let rail = RailNode::new();
    rail.pod.set_sysctl("net/ipv6/conf/lo/disable_ipv6", "1");
    rail.node.run("mount", &["-o", "bind,ro", "/proc/sys", "/proc/sys"]);
    let before = rail.node.snapshot();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "fd00:7::5/64"}]}));
    rail.with_ipam(&ipam).add().refusal().says(&["enable IPv6", "Read-only file system"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_8_pods_that_wait_for_duplicate_address_detection_do_not_wait_for_each_other() {
    let rail = RailNode::new();
    let pods: Vec<_> = (0..4).map(|number| rail.node.pod(&format!("dad{number}"))).collect();
    let is_tentative = |pod: &TestPod| pod.address_infos("net1").iter().any(|info| info["tentative"] == true);
    thread::scope(|scope| {
        for (number, pod) in pods.iter().enumerate() {
            // A detection takes five seconds.
            pod.set_sysctl("net/ipv6/conf/default/dad_transmits", "5");
            let ip = format!("fd00:7::{}/64", number + 5);
            let result = json!({"ips": [{"address": ip, "gateway": "fd00:7::1"}]});
            let name = format!("fake{number}");
            let ipam = FakeIpam::install(&rail.node, &name);
            ipam.set_result("ADD", &result);
            let call = rail.macvlan(&json!({"ipam": {"type": name}})).delegates_in(ipam.dir());
            let call = call.pod(pod).container(&name);
            scope.spawn(move || call.add().ok());
        }
        wait_until("all of them wait", || pods.iter().all(is_tentative));
    });
    assert!(!pods.iter().any(is_tentative), "an ADD did not wait");
}
