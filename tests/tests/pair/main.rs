//! Tests that need two nodes. They run in two virtual machines of the lab on one network (`hack/test pair`), with the kernel's
//! software RoCE `rdma_rxe`.
//!
//! The machines are shared, so one test runs at a time (`--test-threads=1`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod agent;
mod measure;
mod mesh;
mod probe;
mod refusal;
