//! A second ADD without a DEL.

use serde_json::json;
use testkit::{FakeIpam, Observe};

use silkrail_tests::rail::RailNode;

#[test]
fn invariant_6_a_duplicate_add_fails_and_changes_nothing() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    let result = call.add().ok();
    let before = rail.node.snapshot();
    for again in [call.clone(), rail.macvlan(&json!({"mode": "private", "mac": "c2:11:22:33:44:55"}))] {
        let refusal = again.add().error(102);
        refusal.says(&["c0ffee", "net1", "already exists"]);
        rail.node.snapshot().assert_is(&before);
    }
    call.check_after(&result).done();
}

#[test]
fn invariant_6_a_duplicate_add_does_not_call_the_ipam_plugin() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    rail.with_ipam(&ipam).add().ok();
    rail.with_ipam(&ipam).add().error(102);
    assert_eq!(ipam.verbs(), ["ADD"]);
}

#[test]
fn invariant_6_an_add_in_a_new_namespace_is_refused_while_the_old_one_exists() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let other = rail.node.pod("b");
    let before = rail.node.snapshot();
    call.clone().pod(&other).add().error(102).says(&["already exists"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_add_in_a_new_namespace_reverts_the_stale_attachment_of_the_old_one() {
    let rail = RailNode::new().with_every_process();
    let (old, new) = (rail.node.pod("old"), rail.node.pod("new"));
    let call = rail.macvlan(&json!({}));
    call.clone().pod(&old).add().ok();
    old.end();
    let moved = call.pod(&new);
    moved.add().ok();
    assert_eq!(rail.node.snapshot().claims().len(), 1);
    moved.del().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn an_add_in_a_new_namespace_is_refused_while_the_old_one_is_held_elsewhere() {
    let rail = RailNode::new().with_every_process();
    let (old, new) = (rail.node.pod("old"), rail.node.pod("new"));
    let call = rail.macvlan(&json!({}));
    call.clone().pod(&old).add().ok();
    let held = rail.node.pod_of(&old, "held");
    old.end();
    call.clone().pod(&new).add().error(102).says(&["already exists"]);
    assert!(held.link("net1").is_some());
    call.del().done();
    call.pod(&new).add().ok();
}

#[test]
fn invariant_6_an_add_by_another_path_of_the_same_namespace_is_refused() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let alias = rail.node.pod("alias");
    let path = alias.path().to_owned();
    let from = rail.pod.path().display().to_string();
    rail.node.run("mount", &["--bind", &from, path.to_str().unwrap()]);
    let before = rail.node.snapshot();
    call.env("CNI_NETNS", &path).add().error(102).says(&["already exists"]);
    rail.node.snapshot().assert_is(&before);
    rail.node.run("umount", &[path.to_str().unwrap()]);
}

#[test]
fn invariant_6_two_adds_of_one_attachment_at_once_give_one() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    ipam.delay(0.3);
    let call = rail.with_ipam(&ipam);
    let answers = std::thread::scope(|scope| {
        let calls = [0; 4].map(|_| scope.spawn(|| call.add()));
        calls.map(|call| call.join().unwrap())
    });
    let (good, bad): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status.success());
    assert_eq!((good.len(), bad.len()), (1, 3));
    bad.iter().for_each(|answer| drop(answer.error(102)));
    assert_eq!(ipam.verbs(), ["ADD"]);
}
