//! What needs two nodes: run in two of the lab's machines on one wire (`hack/test pair`), RDMA by the kernel's `rdma_rxe`.
//!
//! The machines are shared, so one test runs at a time (`--test-threads=1`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod agent;
mod measure;
mod mesh;
mod refusal;
