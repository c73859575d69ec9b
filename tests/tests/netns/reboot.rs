//! State of an earlier boot, on a disk that survived it.

use std::{fs, path::PathBuf};

use serde_json::json;
use testkit::{Call, FakeIpam, Observe};

use silkrail_tests::{
    rail::{RailNode, ipam},
    reboot::age,
};

/// An attachment with the only address of its pool; its pod is gone and its state is of an earlier boot.
fn stale() -> (RailNode, Call) {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"])}));
    call.add().ok();
    rail.pod.run_ip("link delete net1");
    age(&rail.node);
    (rail, call)
}

/// The files of the state directory, except the claims of the earlier boot: the first claim of this boot removes them.
fn state(rail: &RailNode) -> Vec<String> {
    let snapshot = rail.node.snapshot();
    snapshot.state().into_iter().filter(|file| !file.starts_with("ipam/")).map(str::to_owned).collect()
}

#[test]
fn invariant_10_after_a_reboot_del_removes_the_state_and_calls_the_ipam_plugin() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    age(&rail.node);
    call.clone().env("CNI_NETNS", "/nonexistent/netns").del().done();
    assert!(state(&rail).is_empty(), "{:?}", state(&rail));
    // The plugin's own state may have survived on a disk.
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
}

#[test]
fn invariant_10_after_a_reboot_del_removes_nothing_of_another_attachment() {
    let (rail, call) = stale();
    // Another pod has the address, and a link of the same name exists at the path.
    let other = call.clone().container("other");
    other.add().ok();
    let before = rail.node.snapshot();
    call.del().done();
    let after = rail.node.snapshot();
    assert!(!after.difference(&before).contains("+ "), "{}", after.difference(&before));
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.10/24"]);
    assert_eq!(state(&rail).len(), 3, "the other attachment's journals and its entry: {:?}", state(&rail));
    other.del().done();
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn invariant_10_after_a_reboot_an_attachment_can_be_created_again() {
    let (rail, call) = stale();
    call.add().ok();
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.10/24"]);
    call.del().done();
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn invariant_10_after_a_reboot_gc_removes_the_state() {
    let (rail, call) = stale();
    call.with("cni.dev/valid-attachments", &json!([])).gc().done();
    assert!(state(&rail).is_empty(), "{:?}", state(&rail));
    let other = call.container("other");
    other.add().ok();
    other.del().done();
    let left: Vec<PathBuf> = fs::read_dir(rail.node.state_dir().join("ipam"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left.len(), 1, "only this boot has addresses: {left:?}");
}
