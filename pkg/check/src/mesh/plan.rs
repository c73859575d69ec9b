//! The plan of a mesh test.

use std::{net::SocketAddr, time::Duration};

use crate::{DeviceName, Seconds, TestKind, TestSpec, protocol::CheckToken, verdict::Threshold};

/// The number of rounds, and so of other nodes that each node meets, if there are more nodes than that.
pub const DEFAULT_ROUNDS: usize = 16;

/// Default of [`MeshPlan::test_slack`].
pub const DEFAULT_TEST_SLACK: Duration = Duration::from_secs(20);

/// What a test takes besides its measurements: connections, the start of perftest and its registration of memory.
const USUAL_OVERHEAD: Duration = Duration::from_secs(2);

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
    /// The devices whose rails are tested, all at the same time; empty for all devices. `None` tests one port of each node,
    /// which the agents select.
    pub rails: Option<Vec<DeviceName>>,
    /// The maximum number of rounds; `None` for all pairs of few nodes, and [`DEFAULT_ROUNDS`] for many.
    pub rounds: Option<usize>,
    /// Selects the pairs and their order.
    pub seed: u64,
    /// How long a test may take besides its measurements. A test that takes longer has failed.
    pub test_slack: Duration,
    /// How long all rounds may take; `None` for what the rounds need if each test takes as long as it may.
    pub time_limit: Option<Duration>,
}

impl MeshPlan {
    /// Returns the number of rounds for this number of nodes.
    pub(super) fn rounds_of(&self, nodes: usize) -> usize {
        let all = if nodes < 2 { 0 } else { nodes - 1 + nodes % 2 };
        self.rounds.unwrap_or(if nodes <= DEFAULT_ROUNDS { all } else { DEFAULT_ROUNDS }).min(all)
    }

    /// Returns how long the measurements of a test take.
    fn measuring(&self) -> Duration {
        let once = Duration::from_secs(self.test.duration.get().into());
        match self.test.kind {
            TestKind::Bandwidth => once,
            // A short test first, which determines the number of messages.
            TestKind::Latency => once + Duration::from_secs(Seconds::SHORTEST.get().into()),
        }
    }

    /// Returns how long a test usually takes.
    pub(super) fn usual(&self) -> Duration {
        self.measuring() + USUAL_OVERHEAD.min(self.test_slack)
    }

    /// Returns how long a test may take.
    pub(super) fn longest(&self) -> Duration {
        self.measuring() + self.test_slack
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::RdmaOperation;

    /// A plan for bandwidth tests of 10 s between this number of nodes.
    pub(crate) fn plan(nodes: u16) -> MeshPlan {
        let (size, queue_pairs) = (65_536u64.try_into().unwrap(), 1u64.try_into().unwrap());
        let seconds = 10u64.try_into().unwrap();
        MeshPlan {
            agents: (1..=nodes).map(|node| (format!("node{node}"), ([127, 0, 0, 1], node).into())).collect(),
            test: TestSpec::new(TestKind::Bandwidth, RdmaOperation::Write, size, queue_pairs, seconds),
            limit: Threshold::default(),
            token: None,
            rails: None,
            rounds: None,
            seed: 0,
            test_slack: DEFAULT_TEST_SLACK,
            time_limit: None,
        }
    }

    #[test]
    fn few_nodes_meet_all_others_and_many_meet_a_sample() {
        let rounds = |nodes, rounds| MeshPlan { rounds, ..plan(0) }.rounds_of(nodes);
        assert_eq!(
            [0, 1, 2, 3, 4, 15, 16, 17, 1000].map(|nodes| rounds(nodes, None)),
            [0, 0, 1, 3, 3, 15, 15, 16, 16]
        );
        assert_eq!([(4, 2), (4, 9), (1000, 40)].map(|(nodes, most)| rounds(nodes, Some(most))), [2, 3, 40]);
    }
}
