//! silkrail-ipam: pools in files, and pools that change.

use std::fs::{self, File};

use serde_json::{Value, json};
use testkit::{Call, wait_until};

use silkrail_tests::rail::{RailNode, ip, pool};

/// A call with `poolsDir`, a directory that has these files.
fn with_files(rail: &RailNode, files: &[(&str, &str)]) -> Call {
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
    let rail = RailNode::new();
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
fn invariant_4_two_pools_with_the_same_addresses_never_share_one() {
    let rail = RailNode::new();
    let call =
        |name: &str, id: &str| rail.ipam(&json!({"pools": [pool(name, &["10.7.0.10"])]})).container(id);
    call("one", "a").add().ok();
    call("two", "b").add().error(101);
}

#[test]
fn ipam_case_109_a_pool_that_shrinks_keeps_its_claims_and_one_that_grows_is_used_at_once() {
    let rail = RailNode::new();
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
fn a_mistyped_key_of_a_pool_file_is_refused_by_name() {
    let rail = RailNode::new();
    let good = manifest("rail", "10.7.0.10-10.7.0.12");
    for (mistyped, suggestion) in [
        ("excludeIps: [10.7.0.10]", "excludeIPs"),
        ("gatway: 10.7.0.1", "gateway"),
        ("nodename: [x]", "nodeName"),
    ] {
        let call = with_files(&rail, &[("rail.yaml", &format!("{good}  {mistyped}\n"))]);
        let key = mistyped.split(':').next().unwrap();
        call.add().error(7).says(&["rail.yaml", &format!("spec.{key}: unknown key"), suggestion]);
    }
    let mut inline = pool("rail", &["10.7.0.10"]);
    inline["excludeIps"] = json!(["10.7.0.10"]);
    rail.ipam(&json!({"pools": [inline]})).add().error(7).says(&["pools[0]", "excludeIps", "excludeIPs"]);
}

#[test]
fn an_address_that_spiderpool_has_allocated_is_not_allocated() {
    let rail = RailNode::new();
    let status =
        r#"status: {allocatedIPs: '{"10.7.0.10":{"pod":"ai/web-0","podUid":"91ab"}}', allocatedIPCount: 1}"#;
    let text = manifest("rail", "10.7.0.10-10.7.0.11") + status;
    let call = with_files(&rail, &[("rail.yaml", &text)]);
    assert_eq!(ip(&call.clone().container("a").add().ok()), "10.7.0.11");
    call.clone().container("b").add().error(101).says(&["rail", "1 of 2", "Spiderpool"]);
    let requested = call.with("runtimeConfig", &json!({"ips": ["10.7.0.10"]})).container("c");
    requested.add().error(101).says(&["10.7.0.10", "Spiderpool has allocated it to pod ai/web-0"]);
}

/// The call with `default_ipv4_ippool` set to these pools.
fn with_pools(call: &Call, names: &[&str]) -> Call {
    let mut ipam = serde_json::from_slice::<Value>(call.sent()).unwrap()["ipam"].clone();
    ipam["default_ipv4_ippool"] = json!(names);
    call.with("ipam", &ipam)
}

#[test]
fn an_empty_file_stops_allocation_because_it_may_reserve_addresses() {
    let rail = RailNode::new();
    let reserved = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nmetadata: {name: r}\nspec: {ips: [10.7.0.10]}\n";
    let pool = manifest("rail", "10.7.0.10-10.7.0.11");
    let call = with_files(&rail, &[("rail.yaml", &pool), ("reserved.yaml", reserved)]);
    assert_eq!(ip(&call.add().ok()), "10.7.0.11");
    call.del().done();
    // As `kubectl get … > reserved.yaml` begins, and as it ends on a full disk.
    for empty in ["", "\n"] {
        let call = with_files(&rail, &[("reserved.yaml", empty)]);
        call.add().error(7).says(&["reserved.yaml", "the file is empty", "may reserve addresses"]);
        call.status().error(50).says(&["reserved.yaml"]);
    }
    // A comment makes the file empty on purpose.
    assert_eq!(
        ip(&with_files(&rail, &[("reserved.yaml", "# nothing is reserved\n")]).add().ok()),
        "10.7.0.10"
    );
}

#[test]
fn the_error_of_a_full_pool_lists_unreadable_files() {
    let rail = RailNode::new();
    let twice = manifest("twice", "10.7.0.30");
    let call = with_files(
        &rail,
        &[
            ("good.yaml", &manifest("good", "10.7.0.10")),
            ("bad.yaml", "kind: [SpiderIPPool\n"),
            ("a.yaml", &twice),
            ("b.yaml", &twice),
        ],
    );
    let call = with_pools(&call, &["*"]);
    call.add().ok();
    let next = call.container("b");
    next.add().error(101).says(&["all IP addresses used out", "bad.yaml", "line ", "twice", "b.yaml"]);
    let requested = |address: &str| next.with("runtimeConfig", &json!({"ips": [address]})).add().error(101);
    requested("10.7.0.40").says(&["no IPPool of this network contains it", "bad.yaml", "twice"]);
}

#[test]
fn an_unreadable_file_affects_its_own_pools_only() {
    let rail = RailNode::new();
    let call = with_files(
        &rail,
        &[("good.yaml", &manifest("good", "10.7.0.10")), ("bad.yaml", "kind: [SpiderIPPool\n")],
    );
    for names in [&["good"][..], &["go*"], &[]] {
        let call = with_pools(&call, names);
        call.status().done();
        assert_eq!(ip(&call.add().ok()), "10.7.0.10");
        call.del().done();
    }
    for names in [&["other"][..], &["good", "other"], &["oth*"]] {
        let call = with_pools(&call, names);
        call.add().error(7).says(&["oth", "bad.yaml", "line "]);
        call.status().error(50).says(&["bad.yaml"]);
    }
}

#[test]
fn an_unreadable_file_is_reported_by_add_and_status_and_does_not_stop_del() {
    let rail = RailNode::new();
    let good = with_files(&rail, &[("good.yaml", &manifest("rail", "10.7.0.10"))]);
    good.add().ok();
    let with_bad_file = with_pools(&with_files(&rail, &[("bad.yaml", "kind: [SpiderIPPool\n")]), &["other"]);
    with_bad_file.clone().container("b").add().error(7).says(&["bad.yaml"]);
    with_bad_file.status().error(50).says(&["bad.yaml"]);
    with_bad_file.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn an_empty_directory_has_no_pools() {
    let rail = RailNode::new();
    with_files(&rail, &[]).add().error(101).says(&["no IPPool available"]);
    let missing: Value = json!({"poolsDir": "/run/silkrail-nowhere/pools.d"});
    let call = rail.ipam(&missing);
    call.add()
        .error(101)
        .says(&["no IPPool available", "directory /run/silkrail-nowhere/pools.d does not exist"]);
    with_pools(&call, &["v4-81"])
        .add()
        .error(101)
        .says(&["v4-81", "directory /run/silkrail-nowhere/pools.d does not exist"]);
}

/// Waits until the next calls read the pools from the index.
fn indexed(rail: &RailNode, call: &Call) {
    // Short files are not indexed.
    let long = "#".repeat(40_000) + "\n" + &manifest("long", "10.7.0.200");
    fs::write(rail.node.state_dir().with_file_name("pools.d/long.yaml"), long).unwrap();
    let dir = rail.node.state_dir().join("ipam/index");
    let is_there = || dir.read_dir().is_ok_and(|mut files| files.next().is_some());
    wait_until("the pool files are old enough to be indexed", || {
        call.clone().container("first").add().ok();
        call.clone().container("first").del().done();
        is_there()
    });
}

#[test]
fn a_pool_file_changed_in_place_is_used_at_once_despite_the_index() {
    let rail = RailNode::new();
    let call = with_files(
        &rail,
        &[("rail.yaml", &manifest("rail", "10.7.0.10")), ("other.yaml", &manifest("o", "10.7.0.30"))],
    );
    let call = with_pools(&call, &["rail"]);
    indexed(&rail, &call);
    let path = rail.node.state_dir().with_file_name("pools.d/rail.yaml");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, manifest("rail", "10.7.0.20")).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    assert_eq!(ip(&call.clone().container("a").add().ok()), "10.7.0.20");
    // A reservation in another file.
    let reserved = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderReservedIP\nmetadata: {name: r}\nspec: {ips: [10.7.0.20]}\n";
    fs::write(path.with_file_name("other.yaml"), reserved).unwrap();
    call.clone().container("a").del().done();
    call.container("b").add().error(101).says(&["no usable addresses"]);
}

#[test]
fn what_the_index_does_not_contain_is_read_from_the_files() {
    let rail = RailNode::new();
    let exported = manifest("rail", "10.7.0.10-10.7.0.11")
        + r#"status: {allocatedIPs: '{"10.7.0.10":{"pod":"ai/web-0","podUid":"91ab"}}'}"#;
    let call = with_files(&rail, &[("rail.yaml", &exported), ("bad.yaml", "kind: [")]);
    let call = with_pools(&call, &["rail"]);
    indexed(&rail, &call);
    let requested = call.with("runtimeConfig", &json!({"ips": ["10.7.0.10"]}));
    requested.add().error(101).says(&["Spiderpool has allocated it to pod ai/web-0"]);
    with_pools(&call, &["other"]).add().error(7).says(&["other", "known IPPools: [long rail]", "bad.yaml"]);
    assert_eq!(ip(&call.add().ok()), "10.7.0.11");
    call.container("next")
        .add()
        .error(101)
        .says(&["1 of 2 allocated on this node", "allocated by Spiderpool"]);
}
