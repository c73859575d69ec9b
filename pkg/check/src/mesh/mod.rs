//! Tests between many nodes, in rounds in which each node takes part at most once: all pairs of few nodes, and a sample of the
//! pairs of many.

mod announcement;
mod outliers;
mod pair;
mod plan;
mod rails;
mod result;
mod rounds;
mod run;
mod statistics;
mod strikes;
mod survey;

pub use announcement::Announcement;
pub use outliers::{OUTLIER_PERCENT, Outlier, RailSummary, SlowNode, SlowPort, SlowRail};
pub use pair::NodePair;
pub use plan::{DEFAULT_ROUNDS, DEFAULT_TEST_SLACK, MeshPlan};
pub use rails::{MissingPort, Rail, RailTable};
pub use result::{FailedNode, MeshResult, StopReason};
pub use rounds::{rounds, sample};
pub use run::{RoundReport, run};
pub use survey::{Survey, survey};
