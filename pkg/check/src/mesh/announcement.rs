//! What a mesh test is going to do.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{plan::MeshPlan, survey::Survey};

/// What a mesh test is going to do, and how long that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The number of nodes that take part.
    pub nodes: usize,
    /// The number of rails; `None` if rails are not tested.
    pub rails: Option<usize>,
    /// The number of rounds.
    pub rounds: usize,
    /// Whether the rounds contain all pairs, and not a sample.
    pub all_pairs: bool,
    /// The number of tests, each on one rail.
    pub tests: usize,
    /// The expected duration.
    #[serde(rename = "expectedSeconds", serialize_with = "as_seconds")]
    pub expected: Duration,
    /// The longest duration.
    #[serde(rename = "longestSeconds", serialize_with = "as_seconds")]
    pub longest: Duration,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}

impl Announcement {
    /// Returns the announcement of a plan for the nodes that responded.
    pub fn new(plan: &MeshPlan, survey: &Survey) -> Self {
        let schedule = survey.schedule(plan);
        let pairs = || schedule.iter().flatten();
        let tests = match survey.rails() {
            None => pairs().count(),
            Some(rails) => pairs().map(|(a, b)| rails.common(*a, *b).len()).sum(),
        };
        let rounds = u32::try_from(schedule.len()).unwrap_or(u32::MAX);
        let longest = plan.longest().saturating_mul(rounds);
        let nodes = survey.responding().len();
        Self {
            nodes,
            rails: survey.rails().map(|rails| rails.rails.len()),
            rounds: schedule.len(),
            all_pairs: pairs().count() == nodes * nodes.saturating_sub(1) / 2,
            tests,
            expected: plan.usual().saturating_mul(rounds),
            longest: plan.time_limit.map_or(longest, |limit| limit.min(longest)),
        }
    }
}
