//! Pools, reservations and blocks are changed while their addresses are in use.

use std::collections::BTreeSet;

use serde_json::json;
use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};

use crate::pool;

#[test]
fn a_pool_is_changed_while_its_addresses_are_in_use() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let node = PoolNode::start(&plane, "node-a");
    let first = node.add("c0", "rail0");
    let block: ipam::IpBlock = node.blocks(&plane)[0].parse().unwrap();
    // All but two addresses of its block are excluded, of which one is in use.
    let others: Vec<_> =
        block.addresses().map(|address| address.to_string()).filter(|address| *address != first).collect();
    let mut shrunk = pool("rail0", "10.16.0.0-10.16.0.255", "16");
    shrunk["spec"]["excludeIPs"] = json!(others[1..]);
    plane.apply(&shrunk);
    plane.apply(&json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderReservedIP",
        "metadata": {"name": "switch"}, "spec": {"ips": [others[0]]},
    }));
    wait_until("the agent has read both", || {
        let files = node.pool_files();
        files.contains("excludeIPs") && files.contains("\"switch\"")
    });
    wait_until("the agent has leased another block", || node.blocks(&plane).len() == 2);
    let second = node.add("c1", "rail0");
    assert!(!block.contains(second.parse().unwrap()), "{second}");
    // The pool is deleted: addresses in use are kept, and can be released.
    plane.api().delete("spiderippools", "", "rail0");
    wait_until("no address is assigned", || {
        node.del("c2", "rail0");
        node.try_add("c2", "rail0").json()["code"].is_number()
    });
    node.try_add("c2", "rail0").refusal().says(&["IPPool \"rail0\"", "does not exist"]);
    node.del("c0", "rail0");
    node.del("c1", "rail0");
    wait_until("its blocks are released", || node.blocks(&plane).is_empty());
}

#[test]
fn a_block_that_is_deleted_stays_until_its_addresses_are_free() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let nodes = [PoolNode::start(&plane, "node-a"), PoolNode::start(&plane, "node-b")];
    nodes[0].add("c0", "rail0");
    let block = nodes[0].blocks(&plane).remove(0);
    plane.api().delete("ipblocks", "", &block);
    nodes[0].wait_for_log("is being deleted, which waits for 1 addresses in use");
    let next = nodes[0].add("c1", "rail0");
    let drained: ipam::IpBlock = block.parse().unwrap();
    assert!(!drained.contains(next.parse().unwrap()), "{next} is of {block}");
    assert!(nodes[0].blocks(&plane).contains(&block));
    nodes[0].del("c0", "rail0");
    wait_until("it is gone", || !nodes[0].blocks(&plane).contains(&block));
}

#[test]
fn a_parent_that_is_deleted_does_not_make_an_address_be_assigned_twice() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.63", "16"));
    let nodes = [PoolNode::start(&plane, "node-a"), PoolNode::start(&plane, "node-b")];
    let mut used = BTreeSet::from([nodes[0].add("c0", "rail0")]);
    plane.api().delete("ipblocks", "", "10.16.0.0-24");
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.63", "64"));
    // Nobody leases a block of a parent that is terminating.
    nodes[1].try_add("c0", "rail0").error(101).says(&["no block is free"]);
    assert!(used.insert(nodes[0].add("c1", "rail0")));
}

#[test]
fn labels_of_the_node_select_pools_and_an_invalid_pool_is_named() {
    let plane = ControlPlane::shared();
    let mut of_zone = pool("rail0", "10.16.0.0-10.16.0.63", "16");
    of_zone["spec"]["nodeAffinity"] = json!({"matchLabels": {"zone": "a"}});
    plane.apply(&of_zone);
    let mut invalid = pool("rail1", "10.16.0.0-10.16.0.63", "16");
    invalid["spec"]["subnet"] = json!("10.17.0.0/16");
    plane.apply(&invalid);
    let node = PoolNode::start(&plane, "node-a");
    node.wait_for_log("IPPool rail1 cannot be used");
    node.try_add("c0", "rail0").refusal().says(&["nodeName does not list this node"]);
    node.try_add("c0", "rail1").refusal().says(&["rail1", "10.16.0.0 is not inside the subnet 10.17.0.0/16"]);
    plane.kubectl(&["label", "node", "node-a", "zone=a"]);
    wait_until("the pool can be used", || node.try_add("c0", "rail0").json()["ips"].is_array());
}
