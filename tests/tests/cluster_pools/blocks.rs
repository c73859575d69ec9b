//! Blocks are leased when addresses are needed, and addresses of them are assigned.

use std::{collections::BTreeSet, thread};

use serde_json::json;
use silkrail_tests::{control_plane::ControlPlane, pool_node::PoolNode};

use crate::pool;

#[test]
fn two_nodes_take_addresses_of_one_pool() {
    let plane = ControlPlane::shared();
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
    let in_pool = |address: &String| (10..=200).contains(&address["10.16.0.".len()..].parse::<u8>().unwrap());
    assert!(used.iter().all(in_pool), "{used:?}");
    // An ADD that is repeated and a DEL need no block.
    assert_eq!(nodes[0].add("c0", "rail0"), nodes[0].add("c0", "rail0"));
    nodes[0].del("c0", "rail0");
    assert!(nodes[0].blocks(&plane).len() <= 4);
}

#[test]
fn a_pool_is_used_to_its_last_address_whatever_the_sizes_of_its_blocks() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.31", "16"));
    let nodes: Vec<_> = ["node-a", "node-b", "node-c"].map(|name| PoolNode::start(&plane, name)).into();
    let mut used = BTreeSet::new();
    assert!(used.insert(nodes[0].add("c0", "rail0")));
    // The addresses remain divided into blocks of 16; those of another parent are not.
    let mut extended = pool("rail0", "10.16.0.0-10.16.0.31", "4");
    extended["spec"]["ips"] = json!(["10.16.0.0-10.16.0.31", "10.16.1.0-10.16.1.7"]);
    plane.apply(&extended);
    let mut full = 0;
    for number in 1..40 {
        for node in &nodes {
            let answer = node.try_add(&format!("c{number}"), "rail0");
            match answer.json()["ips"][0]["address"].as_str() {
                Some(address) => assert!(used.insert(address.replace("/16", "")), "{address} twice"),
                None => {
                    answer.error(101).says(&["IPPool rail0", "no block is free"]);
                    full += 1;
                }
            }
        }
    }
    assert_eq!((used.len(), full), (40, 3 * 39 + 1 - 40), "{used:?}");
    let sizes: BTreeSet<_> =
        plane.list("ipblocks").iter().map(|block| block["spec"]["blockSize"].as_u64()).collect();
    assert_eq!(sizes, BTreeSet::from([None, Some(4), Some(16)]));
}

#[test]
fn many_pods_at_once_on_one_node_get_different_addresses() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.63.255", "64"));
    let node = PoolNode::start(&plane, "node-a");
    let used: BTreeSet<_> = thread::scope(|scope| {
        let add = |thread: usize| {
            let node = &node;
            scope.spawn(move || {
                (0..25).map(|n| node.add(&format!("c{thread}-{n}"), "rail0")).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..8).map(add).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(used.len(), 200);
    // At most one object for 32 addresses: those of blocks and of their parents.
    assert!(plane.list("ipblocks").len() <= 8, "{:?}", plane.list("ipblocks"));
}

#[test]
fn both_families_and_requested_addresses() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let mut six = pool("rail0-v6", "fd00:16::10-fd00:16::ffff", "32");
    six["spec"]["subnet"] = json!("fd00:16::/64");
    plane.apply(&six);
    let nodes = [PoolNode::start(&plane, "node-a"), PoolNode::start(&plane, "node-b")];
    let both = |node: &PoolNode, ips: &[&str]| {
        node.call("both", &["rail0"])
            .with("ipam", &json!({"type": "silkrail-ipam", "store": "cluster", "default_ipv4_ippool": ["rail0"], "default_ipv6_ippool": ["rail0-v6"]}))
            .with("runtimeConfig", &json!({"ips": ips}))
    };
    let result = both(&nodes[0], &[]).add().ok();
    let address = |index: usize| result["ips"][index]["address"].as_str().unwrap().to_owned();
    assert!(address(0).starts_with("10.16.0.") && address(1).starts_with("fd00:16::"), "{result}");
    // The other node cannot have an address of a block of this one.
    let [wanted, ..] = [address(0).replace("/16", "")];
    both(&nodes[1], &[&wanted]).add().error(101).says(&[&wanted, "another node has leased its block"]);
    let free = (0..=255).map(|last| format!("10.16.0.{last}")).find(|free| {
        let blocks = nodes[0].blocks(&plane);
        blocks.iter().all(|block| !block.parse::<ipam::IpBlock>().unwrap().contains(free.parse().unwrap()))
    });
    let free = free.unwrap();
    let result = both(&nodes[1], &[&free]).add().ok();
    assert_eq!(result["ips"][0]["address"], format!("{free}/16"));
}

#[test]
fn the_second_pool_of_a_list_is_used_when_the_first_is_exhausted_or_unavailable() {
    let mut plane = ControlPlane::start();
    plane.apply(&pool("first", "10.16.1.0-10.16.1.7", "4"));
    plane.apply(&pool("second", "10.16.2.0-10.16.2.63", "16"));
    let [node, other] = ["node-a", "node-b"].map(|name| PoolNode::start(&plane, name));
    // The node has a block of the second pool only.
    assert!(node.add("c0", "second").starts_with("10.16.2."));
    let both = |container: &str| {
        let result = node.call(container, &["first", "second"]).add().ok();
        result["ips"][0]["address"].as_str().unwrap().to_owned()
    };
    assert!(both("c1").starts_with("10.16.1."));
    let mut of_first = 1;
    while other.try_add(&format!("d{of_first}"), "first").json()["ips"].is_array() {
        of_first += 1;
    }
    // The rest of the first pool, then the second.
    let addresses: Vec<_> = (0..8).map(|number| both(&format!("e{number}"))).collect();
    let is_first = |address: &&String| address.starts_with("10.16.1.");
    let split = addresses.iter().take_while(is_first).count();
    assert_eq!(split, 8 - of_first, "{addresses:?}");
    assert!(addresses[split..].iter().all(|address| address.starts_with("10.16.2.")), "{addresses:?}");
    // An address of the first pool is free again, but cannot be had: the second is used.
    for number in 1..of_first {
        other.del(&format!("d{number}"), "first");
    }
    plane.kill_api();
    assert!(both("f0").starts_with("10.16.2."));
}
