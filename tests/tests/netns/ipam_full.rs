//! silkrail-ipam: a pool that is full.

use std::{fs, os::unix::fs::MetadataExt};

use serde_json::{Value, json};
use testkit::{Observe, TestPod, wait_until};

use silkrail_tests::{
    cli,
    rail::{RailNode, ip, merged, pool, pool6},
};

fn pool_of_one() -> Value {
    json!({"pools": [pool("rail", &["10.7.0.10"])]})
}

#[test]
fn status_succeeds_with_a_full_pool_by_default() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": merged(json!({"type": "silkrail-ipam"}), &pool_of_one())}));
    call.add().ok();
    call.status().done();
    rail.ipam(&pool_of_one()).status().done();
    rail.ipam(&pool_of_one()).container("next").add().error(101);
    let strict = merged(pool_of_one(), &json!({"statusFailsWhenFull": true}));
    rail.ipam(&strict).status().error(50).says(&["all IP addresses used out", "rail"]);
    call.del().done();
    rail.ipam(&strict).status().done();
}

#[test]
fn the_error_of_a_full_pool_has_the_pool_its_holders_and_a_remedy() {
    let rail = RailNode::new();
    let conf = json!({"ipam": {"type": "silkrail-ipam", "pools": [pool("rail", &["10.7.0.10-10.7.0.11"])]}});
    let of = |name: &str, netns: &TestPod| {
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=ai;K8S_POD_NAME={name};K8S_POD_UID={name}");
        rail.macvlan(&conf).args(&args).container(name).pod(netns)
    };
    let other = rail.node.pod("b");
    of("worker-0", &rail.pod).add().ok();
    of("worker-1", &other).add().ok();
    let third = rail.node.pod("c");
    let refusal = of("worker-2", &third).add().error(101);
    refusal.says(&["all IP addresses used out", "rail", "10.7.0.10-10.7.0.11", "2 of 2"]);
    refusal.says(&["ai/worker-0", "ai/worker-1", "extend its ips", "silkrail gc"]);
}

#[test]
fn an_add_with_a_full_pool_releases_stale_addresses() {
    let rail = RailNode::new();
    let call = |rail: &RailNode, id: &str| rail.ipam(&pool_of_one()).container(id);
    call(&rail, "stale").add().ok();
    let rail = rail.next_pod("b");
    assert_eq!(ip(&call(&rail, "new").add().ok()), "10.7.0.10");
    // A late DEL of the ended pod.
    call(&rail, "stale").del().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.10"]);
    call(&rail, "new").check().done();
    call(&rail, "new").del().done();
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn invariant_4_an_add_with_a_full_pool_releases_no_address_of_a_running_pod() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.11"])]});
    let call = |rail: &RailNode, id: &str| rail.ipam(&pools).container(id);
    // A process keeps the namespace after its path is removed.
    let held = call(&rail, "held");
    held.add().ok();
    let mut keeper = rail.pod.command("sleep").arg("100").spawn().unwrap();
    let inside = fs::metadata(rail.pod.path()).unwrap().ino();
    let entered =
        || fs::metadata(format!("/proc/{}/ns/net", keeper.id())).is_ok_and(|meta| meta.ino() == inside);
    wait_until("the process is in the pod", entered);
    let rail = rail.next_pod("b");
    call(&rail, "running").add().ok();
    let before = rail.node.snapshot();
    call(&rail, "new").add().error(101).says(&["silkrail gc"]);
    rail.node.snapshot().assert_is(&before);
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    assert_eq!(ip(&call(&rail, "new").add().ok()), "10.7.0.10");
}

#[test]
fn invariant_4_an_add_with_a_full_pool_releases_no_address_of_a_namespace_that_is_open() {
    let rail = RailNode::new();
    let call = |rail: &RailNode, id: &str| rail.ipam(&pool_of_one()).container(id);
    call(&rail, "held").add().ok();
    let open = fs::File::open(rail.pod.path()).unwrap();
    let rail = rail.next_pod("b");
    call(&rail, "new").add().error(101).says(&["1 of 1 allocated on this node"]);
    drop(open);
    assert_eq!(ip(&call(&rail, "new").add().ok()), "10.7.0.10");
}

#[test]
fn a_full_pool_of_one_family_has_its_stale_addresses_released() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool("four", &["10.7.0.10"]), pool6("six", &["fd00:7::a-fd00:7::f"])]});
    let call = |rail: &RailNode, id: &str| rail.ipam(&pools).container(id);
    call(&rail, "stale").add().ok();
    let rail = rail.next_pod("b");
    let given = silkrail_tests::rail::ips(&call(&rail, "new").add().ok());
    assert_eq!(given[0], "10.7.0.10");
    assert_eq!(
        rail.node.snapshot().claims().len(),
        2,
        "both stale addresses are released, and two are allocated"
    );
}

#[test]
fn doctor_reports_a_full_pool() {
    let rail = RailNode::new();
    let doctor = || cli::silkrail(&format!("doctor --json --state-dir {}", rail.node.state_dir().display()));
    let full = || {
        let report: Value = serde_json::from_str(&doctor().stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .filter(|finding| finding["id"] == "pools-full")
            .map(|finding| finding["object"].clone())
            .collect::<Vec<_>>()
    };
    let pools = json!({"pools": [pool("rail", &["10.7.0.10"]), pool("other", &["10.7.0.11-10.7.0.12"])]});
    let named = |name: &str| {
        rail.ipam(&merged(pools.clone(), &json!({"default_ipv4_ippool": [name]}))).container(name)
    };
    named("rail").add().ok();
    named("other").add().ok();
    assert_eq!(full(), ["rail"]);
    named("rail").del().done();
    assert!(full().is_empty());
}
