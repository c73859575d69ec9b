//! Asks all agents for their ports before the first round, so that nodes that do not respond cost no round.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{plan::MeshPlan, rails::RailTable, result::FailedNode, rounds::sample};
use crate::{Error, client::Client, local_end::LocalContext, node_port::NodePort};

/// How long an agent may take to report its ports.
const SURVEY_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of agents that are asked at the same time.
const SURVEY_THREADS: usize = 128;

/// What the agents reported.
#[derive(Debug)]
pub struct Survey {
    nodes: Vec<Result<Vec<NodePort>, String>>,
    rails: Option<RailTable>,
}

/// Asks all agents of the plan for their ports.
///
/// # Errors
/// [`Error::Interrupted`]. The error of a node is part of the survey.
pub fn survey(plan: &MeshPlan, node: &LocalContext) -> Result<Survey, Error> {
    let next = AtomicUsize::new(0);
    let nodes = Mutex::new(vec![Err("not asked".to_owned()); plan.agents.len()]);
    thread::scope(|scope| {
        for _ in 0..SURVEY_THREADS.min(plan.agents.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, address)) = plan.agents.get(index) else { break };
                    let deadline = Some(Instant::now() + SURVEY_TIMEOUT);
                    let connected = Client::connect_until(node, *address, plan.token.as_ref(), deadline);
                    let ports = connected.and_then(|mut client| client.ports());
                    let ports = ports.map_err(|error| error.to_string());
                    nodes.lock().unwrap_or_else(PoisonError::into_inner)[index] = ports;
                }
            });
        }
    });
    node.interrupt.check()?;
    Ok(Survey::new(nodes.into_inner().unwrap_or_else(PoisonError::into_inner), plan))
}

impl Survey {
    fn new(nodes: Vec<Result<Vec<NodePort>, String>>, plan: &MeshPlan) -> Self {
        let ports: Vec<Vec<NodePort>> = nodes.iter().map(|ports| ports.clone().unwrap_or_default()).collect();
        let rails = plan.rails.as_ref().map(|only| RailTable::new(&ports, only));
        Self { nodes, rails }
    }

    /// Returns the rails, if rails are tested.
    pub fn rails(&self) -> Option<&RailTable> {
        self.rails.as_ref()
    }

    /// Returns the indexes of the nodes that responded.
    pub fn responding(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_ok()).collect()
    }

    /// Returns the nodes that did not respond, or refused.
    pub fn failed(&self) -> Vec<FailedNode> {
        let failed = |(node, ports): (usize, &Result<_, String>)| {
            Some(FailedNode { node, rail: None, error: ports.as_ref().err()?.clone() })
        };
        self.nodes.iter().enumerate().filter_map(failed).collect()
    }

    /// Returns the rounds of the plan for the nodes that responded.
    pub(super) fn schedule(&self, plan: &MeshPlan) -> Vec<Vec<(usize, usize)>> {
        let nodes = self.responding();
        let rounds = sample(nodes.len(), plan.rounds_of(nodes.len()), plan.seed);
        let pairs =
            |round: Vec<(usize, usize)>| round.into_iter().map(|(a, b)| (nodes[a], nodes[b])).collect();
        rounds.into_iter().map(pairs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        TestKind,
        mesh::{Announcement, plan::tests::plan},
    };

    fn port(device: &str) -> NodePort {
        let json = serde_json::json!({"device": device, "port": 1, "networks": [format!("net of {device}")]});
        serde_json::from_value(json).unwrap()
    }

    /// Five nodes, the first of which did not respond. The last one has only one of two rails.
    fn survey_of(plan: &MeshPlan) -> Survey {
        let both = || Ok(vec![port("mlx5_0"), port("mlx5_1")]);
        let nodes = vec![Err("refused".into()), both(), both(), both(), Ok(vec![port("mlx5_1")])];
        Survey::new(nodes, plan)
    }

    #[test]
    fn only_nodes_that_responded_are_paired_and_each_has_its_own_index() {
        let plan = plan(5);
        let survey = survey_of(&plan);
        let mut pairs: Vec<_> =
            survey.schedule(&plan).into_iter().flatten().map(|(a, b)| (a.min(b), a.max(b))).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]);
        let failed = survey.failed();
        assert_eq!((failed.len(), failed[0].node, &*failed[0].error), (1, 0, "refused"));
    }

    #[test]
    fn tests_on_common_rails_and_the_shorter_of_both_limits_are_announced() {
        let mut plan = plan(5);
        let announced = |plan: &MeshPlan| Announcement::new(plan, &survey_of(plan));
        let one_port = announced(&plan);
        assert_eq!((one_port.nodes, one_port.rounds, one_port.tests, one_port.all_pairs), (4, 3, 6, true));
        assert_eq!(one_port.rails, None);
        plan.rails = Some(Vec::new());
        let rails = announced(&plan);
        assert_eq!((rails.rails, rails.tests), (Some(2), 9), "three pairs have one rail in common");
        // A test takes 10 s, and may take 20 s more.
        let seconds = |plan: &MeshPlan| {
            let Announcement { expected, longest, .. } = announced(plan);
            (expected.as_secs(), longest.as_secs())
        };
        assert_eq!(seconds(&plan), (36, 90));
        plan.time_limit = Some(Duration::from_secs(50));
        assert_eq!(seconds(&plan), (36, 50));
        plan.time_limit = Some(Duration::from_secs(900));
        assert_eq!(seconds(&plan), (36, 90), "a limit does not make a test longer");
        plan.test.kind = TestKind::Latency;
        assert_eq!(seconds(&plan), (39, 93), "a short test precedes it");
        plan.test_slack = Duration::from_secs(1);
        assert_eq!(seconds(&plan), (36, 36), "no more is expected than is allowed");
        plan.rounds = Some(2);
        assert_eq!((announced(&plan).rounds, announced(&plan).all_pairs), (2, false));
    }
}
