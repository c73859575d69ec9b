//! The tournament, run from one place: the agents test each other, we instruct.

use std::{net::SocketAddr, sync::mpsc, thread};

use super::{Mesh, Pair, rounds};
use crate::{
    Error, Test,
    client::Client,
    protocol::{Run, Token},
    record::Record,
    session::Node,
    verdict::Limit,
};

/// What is tested between whom.
#[derive(Debug)]
pub struct Plan {
    /// The agents, with the names by which they were asked for.
    pub agents: Vec<(String, SocketAddr)>,
    /// The test of each pair.
    pub test: Test,
    /// What is enough.
    pub limit: Limit,
    /// What all nodes have.
    pub token: Option<Token>,
}

/// Tests all pairs. `told` hears of each when it is over; results are not lost when others fail.
///
/// # Errors
/// [`Error::Interrupted`]; what keeps a pair from a result is told with the pair.
pub fn run(plan: &Plan, node: &Node, mut told: impl FnMut(&mut Pair, &Plan)) -> Result<Mesh, Error> {
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
                let mut pair = Pair { client, server, record, error };
                told(&mut pair, plan);
                pairs.push(pair);
            }
        });
        node.interrupt.check()?;
    }
    let nodes = plan.agents.iter().map(|(name, _)| name.clone()).collect();
    Ok(Mesh::new(nodes, pairs, plan.test.kind))
}

fn pair(plan: &Plan, node: &Node, client: usize, server: usize) -> Result<Record, Error> {
    let run = Run {
        against: plan.agents[server].1,
        test: plan.test,
        wanted: Default::default(),
        peer_wanted: Default::default(),
        limit: plan.limit,
    };
    Client::connect(node, plan.agents[client].1, plan.token.as_ref())?.have_run(run)
}
