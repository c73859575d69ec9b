//! Where a case runs: a node with a master, and a pod.

use std::thread;

use testkit::{TestNode, TestPod};

use super::{Case, Implementation, Record, case};
use crate::rail::RailNode;

/// A node and a pod without attachments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The node.
    pub(super) node: &'a TestNode,
    /// The pod.
    pub(super) pod: &'a TestPod,
    /// The link of the node that is the master of the pod's links.
    pub(super) master: &'a str,
}

/// Runs a case on a new node. The node is the thread's.
pub(super) fn run_on_a_new_node(case: &Case, implementation: Implementation) -> Record {
    let case = case.clone();
    let run = move || {
        let rail = RailNode::new();
        case::run(&case, implementation, &Place { node: &rail.node, pod: &rail.pod, master: "rail0" })
    };
    thread::spawn(run).join().unwrap()
}
