//! Pods of a node, from its processes, cgroups and directories.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod arbitrary;
mod node;
mod shapes;
