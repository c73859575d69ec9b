//! Runs the rounds from one host: it instructs the agents, which test each other.

use std::{net::SocketAddr, sync::mpsc, thread};

use super::{MeshResult, NodePair, rounds};
use crate::{
    Error, TestSpec,
    client::Client,
    local_end::LocalContext,
    protocol::{CheckToken, RemoteTest},
    test_result::TestResult,
    verdict::Threshold,
};

/// The plan of a mesh test.
#[derive(Debug)]
pub struct MeshPlan {
    /// The agents, with their names as given on the command line.
    pub agents: Vec<(String, SocketAddr)>,
    /// The test of each pair.
    pub test: TestSpec,
    /// The threshold for the verdict of each pair.
    pub limit: Threshold,
    /// The shared secret of all nodes.
    pub token: Option<CheckToken>,
}

/// Tests all pairs. Calls `on_pair` after each test, so that its result is kept if later ones fail.
///
/// # Errors
/// [`Error::Interrupted`]. The error of a pair is part of its [`NodePair`].
pub fn run(
    plan: &MeshPlan,
    node: &LocalContext,
    mut on_pair: impl FnMut(&mut NodePair, &MeshPlan),
) -> Result<MeshResult, Error> {
    let mut pairs = Vec::new();
    for round in rounds(plan.agents.len()) {
        let (sender, results) = mpsc::channel();
        thread::scope(|scope| {
            for (client, server) in round {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = pair(plan, node, client, server);
                    // Sending fails only if the receiver has been dropped.
                    let _ = sender.send((client, server, result));
                });
            }
            drop(sender);
            for (client, server, result) in results {
                let (record, error) = match result {
                    Ok(record) => (Some(record), None),
                    Err(error) => (None, Some(error.to_string())),
                };
                let mut pair = NodePair { client, server, record, error };
                on_pair(&mut pair, plan);
                pairs.push(pair);
            }
        });
        node.interrupt.check()?;
    }
    let nodes = plan.agents.iter().map(|(name, _)| name.clone()).collect();
    Ok(MeshResult::new(nodes, pairs, plan.test.kind))
}

fn pair(plan: &MeshPlan, node: &LocalContext, client: usize, server: usize) -> Result<TestResult, Error> {
    let run = RemoteTest {
        against: plan.agents[server].1,
        test: plan.test,
        wanted: Default::default(),
        peer_wanted: Default::default(),
        limit: plan.limit,
    };
    Client::connect(node, plan.agents[client].1, plan.token.as_ref())?.run_between_agents(run)
}
