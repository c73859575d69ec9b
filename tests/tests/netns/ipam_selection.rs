//! silkrail-ipam: which pool an address comes from. The rules are tested in `pkg/ipam`; here, that a call reaches them.

use serde_json::{Value, json};

use silkrail_tests::rail::{RailNode, ip, merged, pool};

/// A pool of one address: 10.7.0.`last`.
fn one(name: &str, last: u8, more: &Value) -> Value {
    merged(pool(name, &[&format!("10.7.0.{last}")]), more)
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
