//! Tests of the files of this repository: what users copy from `conf`, pages, sources and dependencies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what a failing test was about")]

mod changes;
mod cluster_policy;
mod conf;
mod deploy;
mod doctor_page;
mod modules;
mod pod_settings;
mod test_runner;
