//! silkrail-ipam: which pool an address comes from.

use serde_json::{Value, json};

use silkrail_tests::rail::{RailNode, ip, ips, merged, pool, pool6};

/// A pool of one address: 10.7.0.`last`.
fn one(name: &str, last: u8, more: &Value) -> Value {
    merged(pool(name, &[&format!("10.7.0.{last}")]), more)
}

#[test]
fn ipam_case_062_patterns_name_the_pools_they_match() {
    let rail = RailNode::new();
    let pools =
        json!([one("rail1-a", 10, &json!({})), one("rail1-b", 11, &json!({})), one("other", 12, &json!({}))]);
    let call = |n: u32, pattern: &str| {
        rail.ipam(&json!({"pools": pools, "default_ipv4_ippool": [pattern]})).container(&format!("c{n}"))
    };
    assert_eq!(ip(&call(0, "rail?-*").add().ok()), "10.7.0.10");
    assert_eq!(ip(&call(1, "rail?-*").add().ok()), "10.7.0.11");
    call(2, "rail?-*").add().error(101).says(&["rail1-a", "rail1-b", "used out"]);
    call(3, "none-*").add().error(101).says(&["no IPPool available", "none-*"]);
}

#[test]
fn ipam_case_063_a_pool_that_does_not_exist_is_named() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"pools": [one("rail", 10, &json!({}))], "default_ipv4_ippool": ["v4-81"]}));
    call.add().error(101).says(&["v4-81", "does not exist", "rail"]);
}

#[test]
fn ipam_case_064_a_pool_named_twice_is_wrong_input() {
    let rail = RailNode::new();
    let call =
        rail.ipam(&json!({"pools": [one("rail", 10, &json!({}))], "default_ipv4_ippool": ["rail", "rail"]}));
    call.add().error(101).says(&["wrong input", "rail"]);
}

#[test]
fn ipam_case_065_disabled_and_terminating_pools_are_skipped() {
    let rail = RailNode::new();
    let terminating = json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": "going", "deletionTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"subnet": "10.7.0.0/24", "ips": ["10.7.0.11"]},
    });
    let pools = json!([one("off", 10, &json!({"disable": true})), terminating, one("on", 12, &json!({}))]);
    assert_eq!(ip(&rail.ipam(&json!({"pools": pools})).add().ok()), "10.7.0.12");
    let refusal = rail.ipam(&json!({"pools": [pools[0], pools[1]]})).container("b").add().error(101);
    refusal.says(&["off", "disabled", "going", "being deleted"]);
}

#[test]
fn ipam_case_066_a_pool_of_another_node_is_filtered_out() {
    let rail = RailNode::new();
    let theirs = one("theirs", 10, &json!({"nodeName": ["node2"]}));
    let call = rail.ipam(&json!({"nodeName": "node1", "pools": [theirs]}));
    call.add().error(101).says(&["filtered out", "theirs", "nodeName", "node1"]);
    assert_eq!(ip(&rail.ipam(&json!({"nodeName": "node2", "pools": [theirs]})).add().ok()), "10.7.0.10");
}

#[test]
fn ipam_case_067_a_node_name_counts_before_labels() {
    let rail = RailNode::new();
    let labels = json!({"matchLabels": {"zone": "elsewhere"}});
    let pool = one("rail", 10, &json!({"nodeName": ["node1"], "nodeAffinity": labels}));
    rail.ipam(&json!({"nodeName": "node1", "pools": [pool]})).add().ok();
}

#[test]
fn ipam_case_068_every_filter_gives_its_reason() {
    let rail = RailNode::new();
    let labels = json!({"matchLabels": {"a": "b"}});
    let pools = json!([
        one("p1", 10, &json!({"nodeName": ["node2"]})),
        one("p2", 11, &json!({"namespaceName": ["kube-system"]})),
        one("p3", 12, &json!({"multusName": ["kube-system/other"]})),
        one("p4", 13, &json!({"podAffinity": labels})),
        one("p5", 14, &json!({"namespaceAffinity": labels})),
        one("p6", 15, &json!({"nodeAffinity": labels})),
    ]);
    let call = rail.ipam(&json!({"pools": pools})).args("K8S_POD_NAMESPACE=default");
    let refusal = call.add().error(101);
    for (name, why) in [
        ("p1", "nodeName"),
        ("p2", "namespaceName"),
        ("p3", "multusName"),
        ("p4", "podAffinity"),
        ("p5", "namespaceAffinity"),
        ("p6", "nodeAffinity"),
    ] {
        refusal.says(&[&format!("{name}: "), why]);
    }
}

#[test]
fn ipam_case_069_the_most_specific_pool_is_used_first() {
    let rail = RailNode::new();
    let pools = json!([
        one("any", 10, &json!({})),
        one("network", 11, &json!({"multusName": ["rail"]})),
        one("namespace", 12, &json!({"namespaceName": ["default"]})),
        one("node", 13, &json!({"nodeName": ["node1"]})),
    ]);
    let add = |n: u32| {
        let call = rail.ipam(&json!({"nodeName": "node1", "pools": pools}));
        ip(&call.args("K8S_POD_NAMESPACE=default").container(&format!("c{n}")).add().ok())
    };
    let order: Vec<_> = (0..4).map(add).collect();
    assert_eq!(order, ["10.7.0.13", "10.7.0.12", "10.7.0.11", "10.7.0.10"]);
}

#[test]
fn ipam_case_068_a_pool_is_not_used_by_a_network_of_the_same_name_in_another_namespace() {
    let rail = RailNode::new();
    let pools = json!([one("theirs", 10, &json!({"multusName": ["team-a/rail"]}))]);
    let call = |namespace: Value| rail.ipam(&json!({"multusNamespace": namespace, "pools": pools}));
    call(json!("team-b"))
        .add()
        .error(101)
        .says(&["theirs: multusName does not list this network", "team-b/rail"]);
    assert_eq!(ip(&call(json!("team-a")).add().ok()), "10.7.0.10");
    call(json!("team-a")).del().done();
    // Without multusNamespace, the name alone decides.
    assert_eq!(ip(&call(Value::Null).add().ok()), "10.7.0.10");
}

#[test]
fn ipam_case_070_equal_pools_keep_the_order_of_the_list() {
    let rail = RailNode::new();
    let pools = json!([one("b", 10, &json!({})), one("a", 11, &json!({}))]);
    for listed in [json!(["a", "b"]), json!(["b", "a"])] {
        let call = rail.ipam(&json!({"pools": pools, "default_ipv4_ippool": listed}));
        for _ in 0..10 {
            let expected = if listed[0] == "a" { "10.7.0.11" } else { "10.7.0.10" };
            assert_eq!(ip(&call.add().ok()), expected);
            call.del().done();
        }
    }
}

#[test]
fn ipam_case_071_when_the_first_pool_is_full_the_second_is_used() {
    let rail = RailNode::new();
    let pools = json!({"pools": [one("first", 10, &json!({})), one("second", 11, &json!({}))]});
    let call = |n: u32| rail.ipam(&pools).container(&format!("c{n}"));
    assert_eq!(ip(&call(0).add().ok()), "10.7.0.10");
    assert_eq!(ip(&call(1).add().ok()), "10.7.0.11");
    call(2).add().error(101).says(&["first", "second"]);
    call(0).del().done();
    assert_eq!(ip(&call(2).add().ok()), "10.7.0.10");
}

#[test]
fn ipam_case_074_matching_the_masters_subnet_is_refused_as_unsupported() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"match_master_subnet": true, "pools": [one("rail", 10, &json!({}))]}));
    call.add().error(2).says(&["match_master_subnet", "true"]);
    call.del().done();
}

#[test]
fn ipam_case_075_a_network_with_pools_of_one_family_gets_one_address() {
    let rail = RailNode::new();
    let pools = json!([one("four", 10, &json!({})), pool6("six", &["fd00:7::a"])]);
    let only = |key: &str, name: &str, id: &str| {
        ips(&rail.ipam(&json!({"pools": pools, key: [name]})).container(id).add().ok())
    };
    assert_eq!(only("default_ipv4_ippool", "four", "a"), ["10.7.0.10"]);
    assert_eq!(only("default_ipv6_ippool", "six", "b"), ["fd00:7::a"]);
}
