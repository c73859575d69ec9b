//! The controller reclaims blocks and writes the status of pools.

use std::process::Command;

use serde_json::{Value, json};
use silkrail_tests::{
    cli,
    control_plane::{ControlPlane, wait_until},
    pool_node::PoolNode,
};

use crate::pool;

fn pool_object(plane: &ControlPlane) -> Value {
    plane.api().get("spiderippools", "", "rail0").unwrap()
}

#[test]
fn the_blocks_of_a_node_that_is_gone_are_given_to_others() {
    let mut plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.15", "16"));
    let mut gone = PoolNode::start(&plane, "node-a");
    let node = PoolNode::start(&plane, "node-b");
    let address = gone.add("c0", "rail0");
    plane.start_controller(&["--short-hold-down", "4"]);
    node.try_add("c0", "rail0").error(101).says(&["no block is free"]);
    // A node that does not answer keeps its block.
    gone.kill_agent();
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(gone.blocks(&plane).len(), 1);
    plane.api().delete("nodes", "", "node-a");
    wait_until("the block is free", || gone.blocks(&plane).is_empty());
    wait_until("the other node has it", || node.try_add("c1", "rail0").json()["ips"].is_array());
    assert_eq!(node.blocks(&plane).len(), 1);
    // The machine was not off, against the assumption: the agent reports it.
    plane.add_node("node-a");
    gone.start_agent();
    gone.wait_for_log("this node used it, but it belongs to node-b; 1 addresses are in use here");
    assert!(gone.log().contains(&address), "{}", gone.log());
    gone.try_add("c2", "rail0").error(101);
}

#[test]
fn a_node_that_is_out_of_service_loses_its_blocks_at_once() {
    let mut plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let mut node = PoolNode::start(&plane, "node-a");
    node.add("c0", "rail0");
    node.kill_agent();
    plane.start_controller(&[]);
    plane.kubectl(&["taint", "node", "node-a", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]);
    wait_until("the block is free", || node.blocks(&plane).is_empty());
    // A parent is removed when it is deleted and has no block.
    plane.api().delete("ipblocks", "", "10.16.0.0-24");
    wait_until("nothing is left", || plane.list("ipblocks").is_empty());
}

#[test]
fn the_status_of_a_pool_has_its_use_and_what_is_wrong_with_it() {
    let mut plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.255", "16"));
    let mut node = PoolNode::start(&plane, "node-a");
    let addresses: Vec<_> = (0..5).map(|number| node.add(&format!("c{number}"), "rail0")).collect();
    plane.start_controller(&["--status-interval", "1"]);
    // The first use is reported at once, later ones after half a minute; an agent that starts reports everything.
    node.kill_agent();
    node.start_agent();
    wait_until("the use is reported", || pool_object(&plane)["status"]["allocatedIPCount"] == 5);
    let table = plane.kubectl(&["get", "spiderippools"]);
    let line: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[..4], ["rail0", "10.16.0.0/16", "5", "256"], "{table}");
    let mut shrunk = pool("rail0", "10.16.0.0-10.16.0.255", "16");
    shrunk["spec"]["excludeIPs"] = json!([addresses[0]]);
    plane.apply(&shrunk);
    let condition = |kind: &str| {
        let conditions = pool_object(&plane)["status"]["conditions"].clone();
        conditions
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind)
            .cloned()
            .unwrap_or_default()
    };
    wait_until("the excluded address is reported", || condition("AddressesOutside")["status"] == "True");
    let message = condition("AddressesOutside")["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("{} on node-a", addresses[0])), "{message}");
    shrunk["spec"]["gateway"] = json!("10.99.0.1");
    plane.apply(&shrunk);
    wait_until("the pool is invalid", || condition("Valid")["status"] == "False");
    assert!(condition("Valid")["message"].as_str().unwrap().contains("gateway: 10.99.0.1"));
}

#[test]
fn an_administrator_releases_the_blocks_of_a_node_that_is_off() {
    let plane = ControlPlane::shared();
    plane.apply(&pool("rail0", "10.16.0.0-10.16.0.15", "16"));
    let mut gone = PoolNode::start(&plane, "node-a");
    let node = PoolNode::start(&plane, "node-b");
    gone.add("c0", "rail0");
    let release = |more: &str| {
        let mut command = Command::new(cli::executable());
        command.args("ipam release-node node-a".split(' ')).args(more.split_whitespace());
        let output = command.env("KUBECONFIG", plane.admin_kubeconfig()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout) + &text(output.stderr))
    };
    plane.set_ready("node-a", true);
    let (is_ok, text) = release("--yes");
    assert!(!is_ok && text.contains("Node node-a reports to the API server"), "{text}");
    gone.kill_agent();
    plane.set_ready("node-a", false);
    let (is_ok, text) = release("");
    assert!(
        is_ok && text.contains("10.16.0.0/28") && text.contains("would be released with --yes"),
        "{text}"
    );
    assert_eq!(gone.blocks(&plane).len(), 1);
    let (is_ok, text) = release("--yes --json");
    let rows: Value = serde_json::from_str(&text).unwrap();
    assert!(is_ok && rows[0]["result"] == "released", "{text}");
    assert!(gone.blocks(&plane).is_empty());
    wait_until("the other node has it", || node.try_add("c1", "rail0").json()["ips"].is_array());
    let (is_ok, text) = release("--yes");
    assert!(is_ok && text.contains("node node-a has no blocks"), "{text}");
}
