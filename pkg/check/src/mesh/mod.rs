//! Tests of all pairs of several nodes, in rounds in which each node takes part at most once.

mod matrix;
mod rounds;
mod run;

pub use matrix::{MeshResult, NodePair, OUTLIER_PERCENT, Outlier, SlowNode};
pub use rounds::rounds;
pub use run::{MeshPlan, run};
