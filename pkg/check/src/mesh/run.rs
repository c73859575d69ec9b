//! The tournament, run from one place: the agents test each other, we instruct.

use std::{net::SocketAddr, sync::mpsc, thread};

use super::{MeshResult, NodePair, rounds};
use crate::{
    Error, TestSpec,
    client::Client,
    protocol::{CheckToken, RemoteTest},
    record::TestResult,
    session::LocalContext,
    verdict::Threshold,
};

/// What is tested between whom.
#[derive(Debug)]
pub struct MeshPlan {
    /// The agents, with the names by which they were asked for.
    pub agents: Vec<(String, SocketAddr)>,
    /// The test of each pair.
    pub test: TestSpec,
    /// What is enough.
    pub limit: Threshold,
    /// What all nodes have.
    pub token: Option<CheckToken>,
}

/// Tests all pairs. `told` hears of each when it is over; results are not lost when others fail.
///
/// # Errors
/// [`Error::Interrupted`]; what keeps a pair from a result is told with the pair.
pub fn run(
    plan: &MeshPlan,
    node: &LocalContext,
    mut told: impl FnMut(&mut NodePair, &MeshPlan),
) -> Result<MeshResult, Error> {
    let mut pairs = Vec::new();
    for round in rounds(plan.agents.len()) {
        let (sender, results) = mpsc::channel();
        thread::scope(|scope| {
            for (client, server) in round {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = pair(plan, node, client, server);
                    // Nobody listens if we are interrupted.
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
                told(&mut pair, plan);
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
