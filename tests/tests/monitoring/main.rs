//! Monitoring of a cluster: the metrics reference, dashboards, rules and manifests of `conf/`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod demo;
mod expression;
mod promtool;
mod rule_file;

mod dashboards;
mod manifests;
mod quiet;
mod reference;
mod rules;
mod runbooks;
