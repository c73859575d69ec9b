//! All pairs of many nodes, tested in rounds in which each node is busy once.

mod matrix;
mod rounds;
mod run;

pub use matrix::{MeshResult, NodePair, OUTLIER_PERCENT, Outlier, SlowNode};
pub use rounds::rounds;
pub use run::{MeshPlan, run};
