//! All pairs of many nodes, tested in rounds in which each node is busy once.

mod matrix;
mod rounds;
mod run;

pub use matrix::{Mesh, OUTLIER_PERCENT, Outlier, Pair, SlowNode};
pub use rounds::rounds;
pub use run::{Plan, run};
