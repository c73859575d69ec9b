//! Invariants that have no separate file.

use std::fs;

use serde_json::json;
use testkit::Observe;

use silkrail_tests::rail::RailNode;

#[test]
fn invariant_5_the_plugins_own_namespace_is_refused_before_any_change() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({})).env("CNI_NETNS", "/proc/thread-self/ns/net");
    call.add().error(8);
    rail.node.snapshot().assert_is(&before);
    call.del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_5_del_in_the_plugins_own_namespace_does_not_delete_host_links() {
    let rail = RailNode::new();
    rail.node.run_ip("link add net1 link rail0 type macvlan");
    let before = rail.node.snapshot();
    rail.macvlan(&json!({})).env("CNI_NETNS", "/proc/thread-self/ns/net").del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_7_stdout_has_the_result_only_at_any_log_level() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"logLevel": "debug"}));
    let answer = call.add();
    answer.ok();
    assert!(answer.stderr.contains("cniName=macvlan"), "{answer:?}");
    call.del().done();
}

#[test]
fn invariant_7_a_log_file_is_appended_to() {
    let rail = RailNode::new();
    let file = rail.node.log_file("silkrail.log");
    fs::write(&file, "earlier\n").unwrap();
    let call = rail.macvlan(&json!({"logFile": file, "logLevel": "info"}));
    let answer = call.add();
    answer.ok();
    assert_eq!(answer.stderr, "");
    call.del().done();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("earlier\ntime=") && text.contains("containerID=c0ffee"), "{text}");
}

#[test]
fn invariant_8_a_fifo_in_place_of_a_namespace_does_not_block() {
    let rail = RailNode::new();
    let fifo = rail.node.state_dir().with_file_name("fifo");
    rail.node.run("mkfifo", &[&fifo]);
    let call = rail.macvlan(&json!({})).env("CNI_NETNS", &fifo);
    call.add().error(8).says(&["not a namespace file"]);
    call.del().done();
}

#[test]
fn invariant_9_a_pod_that_requires_rdma_does_not_start_on_a_master_without_rdma() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let call = rail.macvlan(&json!({"rdma": {"require": true}}));
    call.add().error(100).says(&["rail0"]);
    rail.node.snapshot().assert_is(&before);
    call.status().error(50);
    call.del().done();
    rail.macvlan(&json!({"rdma": {"require": false}})).add().ok();
}

#[test]
fn invariant_9_requiring_rdma_of_a_pods_own_link_is_refused() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"rdma": {"require": true}, "linkInContainer": true}));
    call.add().error(7).says(&["rdma.require", "linkInContainer"]);
}

#[test]
fn the_pod_map_has_the_pod_of_the_attachment() {
    let rail = RailNode::new();
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=trainer-0;K8S_POD_UID=1111-2222";
    let call = rail.macvlan(&json!({})).args(args);
    call.add().ok();
    let path = rail.node.state_dir().join("podmap/v1/c0ffee@net1.json");
    let entry: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let text = entry.to_string();
    for part in ["trainer-0", "default", "1111-2222", "rail0", "10.7.0.10/24"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    call.del().done();
    assert!(!path.exists());
}

#[test]
fn the_pod_map_has_complete_attachments_only() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": silkrail_tests::rail::ipam(&["10.7.0.10"])}));
    let path = rail.node.state_dir().join("podmap/v1/c0ffee@net1.json");
    let mut seen = 0;
    for step in 1.. {
        let killed = call.clone().fault(&format!("kill:{step}")).add().was_killed();
        if path.exists() {
            seen += 1;
            assert_eq!(rail.pod.addresses("net1"), ["10.7.0.10/24"], "step {step} of ADD");
        }
        if !killed {
            break;
        }
        call.del().done();
    }
    assert!(seen > 0, "the entry never existed");
    // DEL removes the entry first.
    assert!(call.clone().fault("kill:1").del().was_killed());
    assert!(!path.exists(), "the entry lists a pod whose address is being released");
    assert_eq!(rail.pod.addresses("net1"), ["10.7.0.10/24"]);
    call.del().done();
}
