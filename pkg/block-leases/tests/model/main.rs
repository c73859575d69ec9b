//! A model of a cluster that runs the code of [`block_leases`] under the interleavings, crashes, lost and delayed requests that
//! it can enumerate, and finds no address in use on two nodes.
//!
//! Each request and each step on a node yields to the scheduler of the model first. The scheduler chooses who continues, who
//! ends, and what happens to a request. [`search::every`] tries all choices within a budget, [`search::random`] some without.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests are tests, and report what they have searched"
)]

mod actors;
mod progress;
mod scenarios;
mod schedule;
mod search;
mod world;
