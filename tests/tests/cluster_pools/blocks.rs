//! Blocks are leased when addresses are needed, and addresses of them are assigned.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use silkrail_tests::{control_plane::ControlPlane, pool_node::PoolNode};

fn pool(name: &str, ips: &str, block_size: &str) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name, "annotations": {"ipam.silkrail.io/block-size": block_size}},
        "spec": {"subnet": "10.16.0.0/16", "ips": [ips]},
    })
}

#[test]
fn two_nodes_take_addresses_of_one_pool() {
    let plane = ControlPlane::start();
    plane.apply(&pool("rail0", "10.16.0.10-10.16.0.200", "16"));
    let nodes = [PoolNode::start(&plane, "node-a"), PoolNode::start(&plane, "node-b")];
    let mut used = BTreeSet::new();
    for number in 0..40 {
        for node in &nodes {
            let address = node.add(&format!("c{number}"), "rail0");
            assert!(used.insert(address.clone()), "{address} twice: {used:?}");
        }
    }
    let blocks: Vec<_> = nodes.iter().map(|node| node.blocks(&plane)).collect();
    // 40 addresses and a reserve.
    assert!(blocks.iter().all(|blocks| (3..=4).contains(&blocks.len())), "{blocks:?}");
    let first = &used.first().unwrap()["10.16.0.".len()..];
    assert!(first.parse::<u8>().is_ok_and(|last| (10..=200).contains(&last)), "{first}");
}
