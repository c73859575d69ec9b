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
