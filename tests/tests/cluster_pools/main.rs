//! Pools of the cluster with a real API server: `hack/test cluster`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod blocks;
mod controller;
mod edits;
mod kills;
mod networks;
mod node_condition;
mod outages;
mod pods;
mod rights;
mod stable_addresses;

use serde_json::{Value, json};

/// Returns a pool of 10.16.0.0/16.
fn pool(name: &str, ips: &str, block_size: &str) -> Value {
    json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name, "annotations": {"ipam.silkrail.io/block-size": block_size}},
        "spec": {"subnet": "10.16.0.0/16", "ips": [ips]},
    })
}
