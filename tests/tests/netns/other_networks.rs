//! A pod that already has a network: its links, addresses and routes are unchanged.

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe};

use silkrail_tests::{
    cluster::ClusterNetwork,
    conf::{self, NetworkConf},
    rail::{RailNode, pool},
};

/// An ADD whose IPAM plugin returns these routes; every gateway is on the rail.
fn add(rail: &RailNode, routes: &Value) -> Value {
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": addresses(), "routes": routes}));
    rail.with_ipam(&ipam).add().ok()
}

fn addresses() -> Value {
    json!([
        {"address": "10.7.0.5/24", "gateway": "10.7.0.1"},
        {"address": "fd00:7::5/64", "gateway": "fd00:7::1"},
    ])
}

/// The default routes of both families through the rail.
fn defaults(rail: &RailNode) -> Vec<Value> {
    let routes = rail.pod.routes("net1");
    routes.into_iter().filter(|route| route["dst"] == "default").collect()
}

fn both_defaults() -> Value {
    json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}])
}

/// A rail without other hosts: duplicate address detection is disabled to save time.
fn quiet_rail() -> RailNode {
    let rail = RailNode::new();
    rail.pod.set_sysctl("net/ipv6/conf/default/accept_dad", "0");
    rail
}

#[test]
fn invariant_12_an_existing_default_route_is_kept() {
    let rail = quiet_rail();
    let far = rail.node.pod("far");
    let cluster = ClusterNetwork::of(&rail.pod, &far);
    let result = add(&rail, &both_defaults());
    cluster.is_as_before();
    assert_eq!(defaults(&rail), [Value::Null; 0]);
    assert_eq!(result.get("routes"), None, "the result has only the routes that were added");
    rail.layer_2(&json!({})).del().done();
    cluster.is_alone();
}

#[test]
fn invariant_12_an_existing_default_route_of_any_metric_stays_effective() {
    for (v4, v6) in [("metric 100", "metric 2048"), ("metric 1", "metric 1")] {
        let rail = quiet_rail();
        let far = rail.node.pod("far");
        let cluster = ClusterNetwork::with(&rail.pod, &far, v4, v6);
        add(&rail, &both_defaults());
        cluster.is_as_before();
        assert_eq!(defaults(&rail), [Value::Null; 0]);
    }
}

#[test]
fn invariant_12_an_existing_default_route_of_another_type_is_kept() {
    let rail = quiet_rail();
    rail.pod.run_ip("route add unreachable default metric 50");
    rail.pod.run_ip("-6 route add blackhole default metric 50");
    let foreign = |args: &str| rail.pod.run("ip", &args.split(' ').collect::<Vec<_>>());
    let before = (foreign("route show default"), foreign("-6 route show default"));
    add(&rail, &both_defaults());
    assert_eq!((foreign("route show default"), foreign("-6 route show default")), before);
}

#[test]
fn invariant_12_any_existing_route_is_kept_and_other_routes_are_added() {
    let rail = quiet_rail();
    let far = rail.node.pod("far");
    let cluster = ClusterNetwork::of(&rail.pod, &far);
    let result = add(
        &rail,
        &json!([{"dst": "10.244.1.0/24"}, {"dst": "10.8.0.0/16"}, {"dst": "fd00:244::/64"}, {"dst": "fd00:8::/64"}]),
    );
    cluster.is_as_before();
    let routes = rail.pod.routes("net1");
    let added: Vec<_> = routes.iter().map(|route| route["dst"].as_str().unwrap()).collect();
    assert_eq!(added, ["10.8.0.0/16", "fd00:8::/64"]);
    assert_eq!(result["routes"], json!([{"dst": "10.8.0.0/16"}, {"dst": "fd00:8::/64"}]));
}

#[test]
fn invariant_12_an_existing_route_of_a_table_is_kept_and_other_tables_are_used() {
    let rail = quiet_rail();
    let far = rail.node.pod("far");
    let cluster = ClusterNetwork::of(&rail.pod, &far);
    rail.pod.run_ip("route add default via 10.244.1.1 dev eth0 table 100");
    let before = rail.pod.run("ip", &["route", "show", "table", "100"]);
    let in_tables = json!([{"dst": "0.0.0.0/0", "table": 100}, {"dst": "0.0.0.0/0", "table": 101}]);
    add(&rail, &in_tables);
    assert_eq!(rail.pod.run("ip", &["route", "show", "table", "100"]), before);
    assert_eq!(defaults(&rail)[0]["table"], "101");
    cluster.is_as_before();
}

#[test]
fn a_route_with_another_metric_is_added_to_an_existing_one() {
    let rail = quiet_rail();
    let far = rail.node.pod("far");
    let cluster = ClusterNetwork::with(&rail.pod, &far, "metric 100", "metric 100");
    let metrics =
        |metric: u32| json!([{"dst": "0.0.0.0/0", "priority": metric}, {"dst": "::/0", "priority": metric}]);
    add(&rail, &metrics(100));
    cluster.is_as_before();
    assert_eq!(defaults(&rail), [Value::Null; 0], "the same metric is taken");
    rail.layer_2(&json!({})).del().done();
    // The configuration requests it: the metric decides which of the two is effective.
    add(&rail, &metrics(50));
    assert_eq!(defaults(&rail).len(), 2);
    rail.layer_2(&json!({})).del().done();
    cluster.is_alone();
}

#[test]
fn invariant_12_of_several_networks_of_a_pod_the_first_has_the_default_route() {
    let rail = RailNode::new();
    rail.node.cable("rail1", &rail.switch, "port1");
    let other = json!({"master": "rail1", "ipam": {"type": "silkrail-ipam", "pools": [
        {"name": "other", "subnet": "10.8.0.0/24", "ips": ["10.8.0.10"], "gateway": "10.8.0.1"},
    ]}});
    let defaults = || rail.pod.run("ip", &["route", "show", "default"]);
    let (one, two) = (rail.macvlan(&json!({})), rail.macvlan(&other).ifname("net2"));
    one.add().ok();
    let first = defaults();
    assert!(first.contains("10.7.0.1 dev net1"), "{first}");
    let result = two.add().ok();
    assert_eq!(defaults(), first);
    two.check_after(&result).done();
    two.del().done();
    assert_eq!(defaults(), first);
    one.del().done();
    two.add().ok();
    assert!(defaults().contains("10.8.0.1 dev net2"));
    one.add().ok();
    assert!(!defaults().contains("net1"), "the other network had the default route first");
}

#[test]
fn check_accepts_a_route_that_another_link_has() {
    let rail = quiet_rail();
    let far = rail.node.pod("far");
    let _cluster = ClusterNetwork::of(&rail.pod, &far);
    let routes =
        json!([{"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12", "gw": "10.7.0.9"}, {"dst": "10.8.0.0/16"}]);
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": addresses(), "routes": routes}));
    let call = rail.with_ipam(&ipam);
    let mut result = call.add().ok();
    // A runtime that has the result of an earlier release.
    result["routes"] = routes;
    call.check_after(&result).done();
    rail.pod.run_ip("route delete 10.8.0.0/16");
    call.check_after(&result).error(103).says(&["10.8.0.0/16"]);
}

#[test]
fn a_duplicate_route_is_added_once() {
    let rail = quiet_rail();
    add(
        &rail,
        &json!([{"dst": "10.8.0.0/16"}, {"dst": "10.8.0.0/16"}, {"dst": "fd00:8::/64"}, {"dst": "fd00:8::/64"}]),
    );
    assert_eq!(rail.pod.routes("net1").len(), 2);
}

#[test]
fn invariant_12_a_router_of_the_rail_does_not_take_the_default_route() {
    let rail = quiet_rail();
    add(&rail, &json!([]));
    let metric: u32 = rail.pod.sysctl("net/ipv6/conf/net1/ra_defrtr_metric").parse().unwrap();
    let usual: u32 = rail.pod.sysctl("net/ipv6/conf/default/ra_defrtr_metric").parse().unwrap();
    assert!(metric > usual, "{metric}");
}

#[test]
fn invariant_12_every_macvlan_example_is_attached_and_detached_beside_a_cluster_network() {
    for NetworkConf { network, .. } in conf::networks() {
        let mut chain = conf::plugins(&network);
        if chain.iter().any(|plugin| plugin["type"] != "macvlan") {
            continue;
        }
        let rail = quiet_rail();
        let far = rail.node.pod("far");
        let cluster = ClusterNetwork::of(&rail.pod, &far);
        for plugin in &mut chain {
            plugin["master"] = json!("rail0");
            // This machine has no RDMA; in the lab it is required.
            plugin["rdma"] = json!({"require": false});
            plugin["ipam"]["poolsDir"] = json!(conf::copy_pools(rail.node.state_dir().parent().unwrap()));
            let call = rail.node.plugin("macvlan").conf(plugin).pod(&rail.pod);
            let result = call.add().ok();
            assert_eq!(rail.pod.addresses("net1"), ["172.81.0.100/16"]);
            cluster.is_as_before();
            call.check_after(&result).done();
            call.del().done();
            cluster.is_alone();
        }
    }
}

#[test]
fn invariant_12_every_example_of_a_pool_keeps_the_default_route() {
    for pool in conf::pools() {
        let rail = quiet_rail();
        let far = rail.node.pod("far");
        let cluster = ClusterNetwork::of(&rail.pod, &far);
        let name = pool["metadata"]["name"].as_str().unwrap();
        let mut pool = pool["spec"].clone();
        pool["name"] = json!(name);
        let node = pool["nodeName"][0].clone();
        let mut ipam = json!({"type": "silkrail-ipam", "pools": [pool]});
        if node.is_string() {
            ipam["nodeName"] = node;
        }
        let call = rail.macvlan(&json!({"ipam": ipam}));
        let result = call.add().ok();
        cluster.is_as_before();
        call.check_after(&result).done();
        call.del().done();
        cluster.is_alone();
    }
}

#[test]
fn a_gateway_of_a_pool_is_the_default_route_of_a_pod_that_has_none() {
    let rail = RailNode::new();
    let result =
        rail.macvlan(&json!({"ipam": {"type": "silkrail-ipam", "pools": [pool("rail", &["10.7.0.10"])]}}));
    let result = result.add().ok();
    assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0", "gw": "10.7.0.1"}]));
    assert_eq!(defaults(&rail)[0]["gateway"], "10.7.0.1");
}
