//! silkrail-ipam: its results, and the order of allocation.

use serde_json::{Value, json};
use testkit::Observe;

use silkrail_tests::{
    rail::{RailNode, ip, ips, pool, pool6},
    reboot::{FORMER, age},
};

#[test]
fn ipam_case_017_the_result_has_prefix_gateway_and_routes_in_order() {
    let rail = RailNode::new();
    let mut pool = pool("rail", &["10.7.0.10"]);
    pool["routes"] =
        json!([{"dst": "10.9.0.0/16", "gw": "10.7.0.9"}, {"dst": "10.8.0.0/16", "gw": "10.7.0.8"}]);
    let result = rail.ipam(&json!({"pools": [pool]})).add().ok();
    assert_eq!(
        result,
        json!({
            "cniVersion": "1.1.0",
            "ips": [{"address": "10.7.0.10/24", "gateway": "10.7.0.1"}],
            "routes": [
                {"dst": "10.9.0.0/16", "gw": "10.7.0.9"},
                {"dst": "10.8.0.0/16", "gw": "10.7.0.8"},
                {"dst": "0.0.0.0/0", "gw": "10.7.0.1"},
            ],
        })
    );
}

#[test]
fn ipam_case_018_with_clean_gateway_there_is_no_default_route() {
    let rail = RailNode::new();
    let result =
        rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])], "clean_gateway": true})).add().ok();
    assert_eq!(result["ips"][0]["gateway"], "10.7.0.1");
    assert_eq!(result.get("routes"), None);
}

#[test]
fn ipam_case_019_one_address_of_each_family() {
    let rail = RailNode::new();
    let pools = json!({"pools": [pool6("six", &["fd00:7::a"]), pool("four", &["10.7.0.10"])]});
    assert_eq!(ips(&rail.ipam(&pools).add().ok()), ["10.7.0.10", "fd00:7::a"]);
}

#[test]
fn ipam_case_051_a_full_disk_records_nothing_and_an_add_works_afterwards() {
    let rail = RailNode::new();
    let state = rail.node.state_dir().display().to_string();
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])]}));
    rail.node.run("mount", &["-t", "tmpfs", "-o", "size=16k,nr_inodes=64,mode=755", "tmpfs", &state]);
    rail.node.run("sh", &["-c", &format!("cat /dev/zero >{state}/ballast 2>/dev/null || true")]);
    let before = rail.node.snapshot();
    call.add().error(5).says(&["No space left on device"]);
    assert_eq!(rail.node.snapshot().state(), before.state());
    rail.node.run("rm", &[format!("{state}/ballast")]);
    call.add().ok();
}

#[test]
fn ipam_case_052_a_read_only_state_directory_is_a_clear_error() {
    let rail = RailNode::new();
    let state = rail.node.state_dir().display().to_string();
    rail.node.run("mount", &["-t", "tmpfs", "-o", "ro,mode=755", "tmpfs", &state]);
    let before = rail.node.snapshot();
    for call in [rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])]})), rail.macvlan(&json!({}))] {
        call.add().error(5).says(&[&state, "Read-only file system"]);
        call.del().done();
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn ipam_case_054_after_a_reboot_old_claims_are_void() {
    let rail = RailNode::new();
    let call = rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])]}));
    call.add().ok();
    let store = rail.node.state_dir().join("ipam");
    age(&rail.node);
    assert!(store.join(FORMER).exists());
    assert_eq!(ip(&call.container("other").add().ok()), "10.7.0.10");
    assert!(!store.join(FORMER).exists(), "the former boot's claims are gone");
}

#[test]
fn status_reports_whether_an_add_could_get_an_address() {
    let rail = RailNode::new();
    rail.ipam(&json!({"pools": [pool("rail", &["10.7.0.10"])]})).status().done();
    rail.ipam(&json!({"pools": []})).status().error(50).says(&["no IPPool available"]);
    let unknown: Value = json!({"pools": [pool("rail", &["10.7.0.10"])], "default_ipv4_ippool": ["other"]});
    rail.ipam(&unknown).status().error(50).says(&["other"]);
}
