//! An agent is killed before and after each request of a lease and of a release.

use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};

use crate::pool;

#[test]
fn an_agent_can_be_killed_at_each_step_of_a_lease() {
    let plane = ControlPlane::shared();
    let (mut node, other) = (PoolNode::start(&plane, "node-a"), PoolNode::start(&plane, "node-b"));
    let mut kills = 0;
    for point in 1.. {
        // Addresses that were not divided into blocks yet, for two nodes.
        let name = format!("rail{point}");
        plane.apply(&pool(&name, &format!("10.16.{point}.0-10.16.{point}.31"), "16"));
        wait_until("both agents know the pool", || {
            [&node, &other].iter().all(|node| node.pool_files().contains(&format!("\"{name}\"")))
        });
        node.kill_agent();
        node.set_kill_point(Some(point));
        node.start_agent();
        let container = format!("c{point}");
        let answer = node.try_add(&container, &name).json();
        if !answer["ips"].is_array() {
            // Its socket is closed a moment before it has ended.
            wait_until("the agent is killed", || node.has_agent_ended());
        }
        let was_killed = node.has_agent_ended();
        node.kill_agent();
        node.set_kill_point(None);
        node.start_agent();
        let addresses = [node.add(&container, &name), other.add(&container, &name)];
        assert_ne!(addresses[0], addresses[1]);
        for (node, address) in [&node, &other].into_iter().zip(&addresses) {
            let blocks = node.blocks(&plane);
            let has =
                |block: &String| block.parse::<ipam::IpBlock>().unwrap().contains(address.parse().unwrap());
            assert_eq!(blocks.iter().filter(|block| has(block)).count(), 1, "{address}: {blocks:?}");
        }
        kills += u32::from(was_killed);
        if !was_killed {
            break;
        }
    }
    // At least the parent is read and created, the block created, and the parent read again.
    assert!(kills >= 8, "{kills} kills");
}

#[test]
fn an_agent_can_be_killed_at_each_step_of_a_release() {
    let plane = ControlPlane::shared();
    let mut node = PoolNode::start(&plane, "node-a");
    let mut kills = 0;
    for point in 1.. {
        plane.apply(&pool("rail0", "10.16.0.0-10.16.0.15", "16"));
        wait_until("the agent knows the pool", || node.pool_files().contains("\"rail0\""));
        let container = format!("c{point}");
        node.add(&container, "rail0");
        node.kill_agent();
        let released = |node: &PoolNode| node.log().matches(" is released").count();
        let before = released(&node);
        node.set_kill_point(Some(point));
        node.del(&container, "rail0");
        plane.api().delete("spiderippools", "", "rail0");
        node.start_agent();
        // It logs the release after the last of these points.
        wait_until("the agent is killed, or has released the block", || {
            node.has_agent_ended() || released(&node) > before
        });
        let was_killed = node.has_agent_ended();
        node.kill_agent();
        node.set_kill_point(None);
        node.start_agent();
        wait_until("the block is released", || node.blocks(&plane).is_empty());
        kills += u32::from(was_killed);
        if !was_killed {
            break;
        }
    }
    // At least the block is read, marked as terminating and removed.
    assert!(kills >= 6, "{kills} kills");
}
