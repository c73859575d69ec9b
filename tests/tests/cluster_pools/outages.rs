//! The API server, etcd, agents and nodes end at any time.

use std::{collections::BTreeSet, thread, time::Duration};

use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};

use crate::pool;

#[test]
fn addresses_of_the_nodes_blocks_are_assigned_without_the_api_server_and_without_the_agent() {
    let mut plane = ControlPlane::start();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let mut node = PoolNode::start(&plane, "node-a");
    let mut used = BTreeSet::from([node.add("c0", "rail0")]);
    plane.kill_api();
    for number in 1..10 {
        assert!(used.insert(node.add(&format!("c{number}"), "rail0")));
    }
    node.kill_agent();
    for number in 10..16 {
        assert!(used.insert(node.add(&format!("c{number}"), "rail0")));
    }
    node.try_add("c16", "rail0")
        .error(11)
        .says(&["no free address on this node", "is `silkraild ipam` running"]);
    node.del("c0", "rail0");
    used.insert(node.add("c17", "rail0"));
    // The agent starts without the API server. It has the blocks that it had.
    node.start_agent();
    node.del("c1", "rail0");
    node.add("c18", "rail0");
    plane.start_api();
    // It waits until the agent has a block for it.
    assert!(used.insert(node.add("c20", "rail0")));
    assert_eq!(node.blocks(&plane).len(), 2);
}

#[test]
fn a_node_that_was_rebooted_has_the_blocks_that_it_had() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let mut node = PoolNode::start(&plane, "node-a");
    for number in 0..20 {
        node.add(&format!("c{number}"), "rail0");
    }
    let blocks = node.blocks(&plane);
    node.reboot();
    for number in 0..20 {
        node.add(&format!("d{number}"), "rail0");
    }
    assert_eq!(node.blocks(&plane), blocks);
}

#[test]
fn a_node_whose_object_is_created_again_keeps_its_blocks() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let node = PoolNode::start(&plane, "node-a");
    let address = node.add("c0", "rail0");
    let owner = || {
        plane
            .list("ipblocks")
            .iter()
            .find_map(|block| block["spec"]["owner"]["nodeUID"].as_str().map(str::to_owned))
            .unwrap()
    };
    let uid = owner();
    plane.api().delete("nodes", "", "node-a");
    node.wait_for_log("its blocks are renewed");
    // It still serves.
    assert_ne!(node.add("c1", "rail0"), address);
    plane.add_node("node-a");
    wait_until("the block has the new UID", || owner() != uid);
    let blocks = node.blocks(&plane);
    for number in 2..12 {
        node.add(&format!("c{number}"), "rail0");
    }
    assert_eq!(node.blocks(&plane), blocks);
}

#[test]
fn a_second_agent_on_a_node_does_not_start() {
    let plane = ControlPlane::shared();
    let node = PoolNode::start(&plane, "node-a");
    let second = node.run_agent();
    assert!(!second.status.success());
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(text.contains("another `silkraild ipam` runs on this node"), "{text}");
}

#[test]
fn a_node_that_has_missed_changes_reads_everything_again() {
    let mut plane = ControlPlane::start();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    plane.add_node("node-a");
    let (link, kubeconfig) = plane.agent_link();
    let node = PoolNode::start_over(kubeconfig, "node-a");
    node.add("c0", "rail0");
    let block = node.blocks(&plane).remove(0);
    link.set_cut(true);
    plane.apply(&pool("rail0", "10.16.1.0-10.16.1.255", "16"));
    plane.api().delete("ipblocks", "", &block);
    // The server has no events from before its start, and etcd neither: it answers watches with 410.
    plane.compact_etcd();
    plane.kill_api();
    plane.start_api();
    link.set_cut(false);
    node.wait_for_log("is being deleted, which waits for 1 addresses in use");
    wait_until("the pool is that of now", || {
        node.del("c1", "rail0");
        node.add("c1", "rail0").starts_with("10.16.1.")
    });
}

#[test]
fn an_add_waits_for_a_request_that_takes_long() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    plane.add_node("node-a");
    let (link, kubeconfig) = plane.agent_link();
    let node = PoolNode::start_over(kubeconfig, "node-a");
    link.set_cut(true);
    thread::scope(|scope| {
        let add = scope.spawn(|| node.add("c0", "rail0"));
        thread::sleep(Duration::from_secs(3));
        assert!(!add.is_finished());
        link.set_cut(false);
        assert!(add.join().unwrap().starts_with("10.16.0."));
    });
    assert_eq!(node.blocks(&plane).len(), 1);
}

#[test]
fn all_nodes_get_blocks_from_a_server_that_refuses_most_requests() {
    let mut plane = ControlPlane::start();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.1.255", "16"));
    let nodes: Vec<_> = (0..8).map(|number| PoolNode::start(&plane, &format!("node-{number}"))).collect();
    plane.kill_api();
    let few = [
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight=1",
        "--max-requests-inflight=2",
    ];
    plane.start_api_with(&few);
    let used: BTreeSet<_> = thread::scope(|scope| {
        let add = |node: &'_ PoolNode| {
            (0..20).map(|number| node.add(&format!("c{number}"), "rail0")).collect::<Vec<_>>()
        };
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(move || add(node))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(used.len(), 160);
    let refused = plane
        .requests()
        .iter()
        .filter(|(request, _)| request.ends_with(" 429"))
        .map(|(_, count)| count)
        .sum::<usize>();
    assert!(refused > 0, "no request was refused with 429");
}
