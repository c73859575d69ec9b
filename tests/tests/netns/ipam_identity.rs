//! silkrail-ipam: which attachment owns an address.

use serde_json::{Value, json};
use testkit::{Call, Observe};

use silkrail_tests::rail::{RailNode, ip, pool};

fn pools(ips: &[&str]) -> Value {
    json!({"pools": [pool("rail", ips)]})
}

fn of_pod(call: &Call, name: &str, uid: &str) -> Call {
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name};K8S_POD_UID={uid}");
    call.clone().args(&args)
}

#[test]
fn ipam_case_030_the_same_add_twice_gives_the_same_result_and_one_record() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10-10.7.0.20"]));
    let first = call.add().ok();
    let before = rail.node.snapshot();
    assert_eq!(call.add().ok(), first);
    rail.node.snapshot().assert_is(&before);
    assert_eq!(before.claims(), [ip(&first)]);
}

/// The main plugin is another one, which does not refuse the second pod.
#[test]
fn the_same_add_in_another_pod_does_not_get_the_address_of_the_first() {
    let rail = RailNode::new();
    let (call, other) = (rail.ipam(&pools(&["10.7.0.10-10.7.0.20"])), rail.node.pod("b"));
    call.add().ok();
    let before = rail.node.snapshot();
    call.clone().pod(&other).add().refusal();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn ipam_case_031_a_pods_new_sandbox_keeps_the_address_of_the_former() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10-10.7.0.20"]));
    let former = of_pod(&call, "a", "11111111-1111").container("former");
    let first = ip(&former.add().ok());
    let rail = rail.next_pod("a2");
    let new = of_pod(&call, "a", "11111111-1111").container("new").pod(&rail.pod);
    assert_eq!(ip(&new.add().ok()), first);
    assert_eq!(rail.node.snapshot().claims(), [first.as_str()]);
    // A late DEL of the former sandbox.
    former.del().done();
    assert_eq!(rail.node.snapshot().claims(), [first.as_str()]);
    new.check().done();
    new.del().done();
    assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
}

#[test]
fn ipam_case_031_a_running_sandbox_keeps_its_address() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10-10.7.0.20"]));
    let first = ip(&of_pod(&call, "a", "11111111-1111").container("former").add().ok());
    let second = ip(&of_pod(&call, "a", "11111111-1111").container("new").add().ok());
    assert_ne!(first, second);
}

#[test]
fn ipam_case_032_a_pod_of_the_same_name_and_another_uid_has_its_own_address() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10-10.7.0.20"]));
    let first = ip(&of_pod(&call, "a", "11111111-1111").container("former").add().ok());
    let second = ip(&of_pod(&call, "a", "22222222-2222").container("new").add().ok());
    assert_ne!(first, second);
    assert_eq!(rail.node.snapshot().claims().len(), 2);
}

#[test]
fn ipam_case_037_del_twice_succeeds() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10"]));
    call.add().ok();
    call.del().done();
    call.del().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn ipam_case_038_del_without_a_namespace_frees_the_address() {
    let rail = RailNode::new();
    for netns in ["", "/nonexistent/netns"] {
        let call = rail.ipam(&pools(&["10.7.0.10"]));
        call.add().ok();
        call.env("CNI_NETNS", netns).del().done();
        assert!(rail.node.snapshot().claims().is_empty());
    }
}

#[test]
fn ipam_case_040_del_needs_none_of_the_pools_of_the_add() {
    let rail = RailNode::new();
    for now in [
        json!({"pools": []}),
        json!({"pools": [pool("renamed", &["10.7.0.99"])]}),
        json!({"pools": 7}),
        json!({}),
    ] {
        rail.ipam(&pools(&["10.7.0.10"])).add().ok();
        rail.ipam(&now).del().done();
        assert!(rail.node.snapshot().claims().is_empty(), "{now}");
    }
}

#[test]
fn ipam_case_042_check_passes_for_a_claim_and_fails_after_it_was_removed() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10"]));
    call.check().error(103).says(&["c0ffee"]);
    call.add().ok();
    call.check().done();
    let claims = format!("{}/ipam", rail.node.state_dir().display());
    rail.node.run("find", &[claims.as_str(), "-name", "10.7.0.10", "-delete"]);
    call.check().error(103).says(&["10.7.0.10"]);
    call.del().done();
    call.check().error(103);
}

#[test]
fn invariant_3_a_late_del_of_a_former_sandbox_leaves_the_note_of_the_new_one() {
    let rail = RailNode::new();
    let call = rail.ipam(&pools(&["10.7.0.10-10.7.0.20"]));
    let of = |container| of_pod(&call, "a", "11111111-1111").container(container);
    of("former").add().ok();
    of("new").add().ok();
    of("former").del().done();
    let note = rail.node.state_dir().join("ipam/pods/11111111-1111@net1");
    assert_eq!(std::fs::read_link(&note).unwrap().to_str(), Some("new@net1"));
    of("new").del().done();
    assert!(!note.is_symlink());
}
