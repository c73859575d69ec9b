//! DEL, in any state of the attachment.

use std::fs;

use serde_json::json;
use testkit::{FakeIpam, Observe, TestPod};

use silkrail_tests::rail::RailNode;

#[test]
fn case_037_del_of_an_unknown_attachment_succeeds() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for ipam in [json!({}), json!({"type": "silkrail-ipam"})] {
        rail.macvlan(&json!({"ipam": ipam})).del().done();
    }
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn case_038_the_ipam_plugins_del_is_called_for_an_unknown_attachment() {
    let rail = RailNode::new();
    let ipam = FakeIpam::install(&rail.node, "fake");
    let call = rail.with_ipam(&ipam);
    call.clone().env("CNI_NETNS", "").del().done();
    call.clone().env("CNI_NETNS", "/nonexistent/netns").del().done();
    call.clone().without("CNI_NETNS").del().done();
    assert_eq!(ipam.verbs(), ["DEL", "DEL", "DEL"]);
}

#[test]
fn invariant_2_del_succeeds_after_the_namespace_is_gone() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    call.del().done();
    assert!(node.snapshot().state().is_empty(), "{:?}", node.snapshot().state());
    call.del().done();
}

#[test]
fn invariant_2_del_succeeds_without_a_namespace_in_the_environment() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for environment in ["", "/nonexistent/netns", "/proc/self/status", "/proc/self/ns/net"] {
        let call = rail.macvlan(&json!({}));
        call.add().ok();
        call.env("CNI_NETNS", environment).del().done();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_2_del_succeeds_without_state() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    fs::remove_dir_all(rail.node.state_dir().join("attachments")).unwrap();
    fs::remove_dir_all(rail.node.state_dir().join("podmap")).unwrap();
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_del_succeeds_when_all_state_and_the_namespace_are_gone() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    call.add().ok();
    let RailNode { pod, node, switch: _switch } = rail;
    pod.end();
    fs::remove_dir_all(node.state_dir()).unwrap();
    call.del().done();
    assert!(node.snapshot().state().is_empty());
}

#[test]
fn invariant_2_del_succeeds_when_a_journal_is_damaged() {
    let rail = RailNode::new();
    for damage in ["", "garbage", "{}\n", "{\"version\": 99}\n", "\0\0\0\n"] {
        let call = rail.macvlan(&json!({}));
        call.add().ok();
        for journal in journals(&rail) {
            fs::write(journal, damage).unwrap();
        }
        call.del().done();
        assert_eq!(rail.pod.link("net1"), None, "after {damage:?}");
        assert!(rail.node.snapshot().claims().is_empty(), "after {damage:?}");
        // The attachment can be created again.
        call.add().ok();
        call.del().done();
    }
}

#[test]
fn invariant_2_del_ignores_the_prev_result() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for prev in [json!(null), json!({}), json!("odd"), json!({"cniVersion": "0.1.0"})] {
        let call = rail.macvlan(&json!({}));
        call.add().ok();
        call.with("prevResult", &prev).del().done();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_2_del_succeeds_with_a_configuration_that_add_would_refuse() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for invalid in [
        json!({"mode": "foo"}),
        json!({"mtu": "x"}),
        json!({"mac": 7}),
        json!({"rdma": 7}),
        json!({"dns": 7}),
        json!({"logLevel": 7}),
        json!({"logFile": "relative"}),
        json!({"ipam": {"type": "silkrail-ipam", "pools": 7}}),
        json!({"ipam": {"type": "silkrail-ipam", "pools": []}}),
    ] {
        rail.macvlan(&json!({})).add().ok();
        rail.macvlan(&invalid).del().done();
        rail.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_3_a_late_del_leaves_the_link_of_another_pod_at_the_same_path() {
    let rail = RailNode::new();
    let first = rail.macvlan(&json!({}));
    first.add().ok();
    let RailNode { pod, node, switch } = rail;
    pod.end();
    let rail = RailNode { pod: node.pod("a"), switch, node };
    rail.macvlan(&json!({})).container("second").add().ok();
    let before = links(&rail.pod);
    first.del().done();
    assert_eq!(links(&rail.pod), before);
    assert_eq!(rail.node.snapshot().claims().len(), 1);
}

#[test]
fn invariant_3_a_late_del_leaves_an_address_that_another_attachment_has() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": silkrail_tests::rail::ipam(&["10.7.0.10"])}));
    call.add().ok();
    let journals: Vec<_> = journals(&rail).into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
    call.del().done();
    let other = rail.node.pod("b");
    let second = call.clone().pod(&other).container("second");
    second.add().ok();
    // As if the first DEL had never run: its journals are restored.
    for (bytes, path) in journals {
        fs::write(path, bytes).unwrap();
    }
    call.del().done();
    assert_eq!(rail.node.snapshot().claims(), ["10.7.0.10"]);
    assert_eq!(other.addresses("net1"), ["10.7.0.10/24"]);
    second.del().done();
    assert!(rail.node.snapshot().claims().is_empty());
}

#[test]
fn invariant_2_a_del_that_fails_to_release_reports_it_and_the_next_one_succeeds() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    ipam.fails("DEL", 11, "the server is away");
    call.del().error(11).says(&["failed to revert", "the server is away"]);
    assert_eq!(rail.pod.link("net1"), None, "DEL continues after failures");
    ipam.recovers("DEL");
    call.del().done();
    assert_eq!(ipam.verbs(), ["ADD", "DEL", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

fn journals(rail: &RailNode) -> Vec<std::path::PathBuf> {
    let dir = fs::read_dir(rail.node.state_dir().join("attachments")).unwrap();
    let paths = dir.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "journal")).collect()
}

fn links(pod: &TestPod) -> Vec<serde_json::Value> {
    pod.ip("address show")
}
