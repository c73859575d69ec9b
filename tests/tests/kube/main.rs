//! Pods of a real Kubernetes with the devices of the lab's machine. `hack/test kube` starts the node and runs these tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod deployment;
mod exclusive;
mod shared;
