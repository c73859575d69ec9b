//! silkrail-ipam: pools in files, and pools that change.

use std::fs;

use serde_json::{Value, json};
use testkit::Call;

use silkrail_tests::rail::{Rail, ip, pool};

/// A call whose pools are in a directory of files.
fn with_files(rail: &Rail, files: &[(&str, &str)]) -> Call {
    let dir = rail.node.state_dir().with_file_name("pools.d");
    fs::create_dir_all(&dir).unwrap();
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
    }
    rail.ipam(&json!({"poolsDir": dir}))
}

fn manifest(name: &str, ips: &str) -> String {
    format!(
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata:\n  name: {name}\n\
         spec:\n  default: true\n  subnet: 10.7.0.0/24\n  gateway: 10.7.0.1\n  ips:\n  - {ips}\n"
    )
}

#[test]
fn ipam_case_072_a_reserved_address_is_not_given_and_one_that_is_used_stays() {
    let rail = Rail::new();
    let reservation = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nmetadata:\n  name: r\n\
                       spec:\n  ips:\n  - 10.7.0.10\n  - 10.7.0.11\n";
    let pool = manifest("rail", "10.7.0.10-10.7.0.12");
    let call = with_files(&rail, &[("rail.yaml", &pool)]);
    assert_eq!(ip(&call.clone().container("a").add().ok()), "10.7.0.10");
    let call = with_files(&rail, &[("reserved.yaml", reservation)]);
    assert_eq!(ip(&call.clone().container("b").add().ok()), "10.7.0.12");
    call.clone().container("c").add().error(101);
    call.clone().container("a").check().done();
    call.container("a").del().done();
}

#[test]
fn ipam_case_108_two_networks_with_one_pool_never_share_an_address() {
    let rail = Rail::new();
    let pools = json!({"pools": [pool("rail", &["10.7.0.10-10.7.0.11"])]});
    let call = |network: &str, id: &str| rail.ipam(&pools).with("name", &json!(network)).container(id);
    let first = ip(&call("one", "a").add().ok());
    assert_ne!(ip(&call("two", "b").add().ok()), first);
    call("three", "c").add().error(101);
}

#[test]
fn invariant_4_two_pools_with_the_same_addresses_never_share_one() {
    let rail = Rail::new();
    let call =
        |name: &str, id: &str| rail.ipam(&json!({"pools": [pool(name, &["10.7.0.10"])]})).container(id);
    call("one", "a").add().ok();
    call("two", "b").add().error(101);
}

#[test]
fn ipam_case_109_a_file_of_manifests_is_as_good_as_inline_pools() {
    let rail = Rail::new();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [{
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": "listed", "resourceVersion": "7"},
        "spec": {"default": true, "subnet": "10.7.0.0/24", "ips": ["10.7.0.10"], "gateway": "10.7.0.1"},
        "status": {"allocatedIPCount": 0},
    }]});
    let from_file = with_files(&rail, &[("list.json", &list.to_string())]).add().ok();
    rail.ipam(&json!({})).del().done();
    let inline = rail.ipam(&json!({"pools": [pool("listed", &["10.7.0.10"])]})).add().ok();
    assert_eq!(from_file, inline);
}

#[test]
fn ipam_case_109_a_pool_that_shrinks_keeps_its_claims_and_one_that_grows_is_used_at_once() {
    let rail = Rail::new();
    let call = |ips: &[&str], id: &str| rail.ipam(&json!({"pools": [pool("rail", ips)]})).container(id);
    call(&["10.7.0.10-10.7.0.11"], "a").add().ok();
    call(&["10.7.0.10-10.7.0.11"], "b").add().ok();
    let small = ["10.7.0.10"];
    for id in ["a", "b"] {
        call(&small, id).check().done();
    }
    call(&small, "c").add().error(101);
    let grown = ["10.7.0.10-10.7.0.11", "10.7.0.20"];
    assert_eq!(ip(&call(&grown, "c").add().ok()), "10.7.0.20");
    call(&small, "b").del().done();
    assert_eq!(ip(&call(&grown, "d").add().ok()), "10.7.0.11");
}

#[test]
fn a_pool_written_twice_is_refused_with_both_places() {
    let rail = Rail::new();
    let text = manifest("rail", "10.7.0.10");
    let call = with_files(&rail, &[("a.yaml", &text), ("b.yaml", &text)]);
    call.add().error(7).says(&["rail", "a.yaml", "b.yaml"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named_by_add_and_status_and_does_not_stop_del() {
    let rail = Rail::new();
    let good = with_files(&rail, &[("good.yaml", &manifest("rail", "10.7.0.10"))]);
    good.add().ok();
    let spoilt = with_files(&rail, &[("bad.yaml", "kind: [SpiderIPPool\n")]);
    spoilt.clone().container("b").add().error(7).says(&["bad.yaml"]);
    spoilt.status().error(50).says(&["bad.yaml"]);
    spoilt.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn an_empty_directory_has_no_pools() {
    let rail = Rail::new();
    with_files(&rail, &[]).add().error(101).says(&["no IPPool available"]);
    let missing: Value = json!({"poolsDir": "/nonexistent/pools.d"});
    rail.ipam(&missing).add().error(101).says(&["no IPPool available"]);
}
