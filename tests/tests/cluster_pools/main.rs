//! Pools of the cluster with a real API server: `hack/test cluster`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod blocks;
