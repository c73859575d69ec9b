//! What an ADD takes with the API server up and down, on a machine that does nothing else.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use silkrail_tests::{control_plane::ControlPlane, pool_node::PoolNode};

use crate::latency::Latencies;

/// How often the API server is up, and down.
const PHASES: usize = 4;
/// The time after which a start and an end of the API server have no more effect on the load of the machine.
const SETTLE_TIME: Duration = Duration::from_secs(8);

/// Calls ADD and DEL for this number of pods one after another in each phase, and returns an account of it and whether all had an
/// address.
pub(crate) fn compare(pods: usize) -> (String, bool) {
    let mut plane = ControlPlane::start();
    plane.apply(&json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
        "metadata": {"name": "rail0", "annotations": {"ipam.silkrail.io/block-size": "64"}},
        "spec": {"subnet": "10.16.0.0/16", "ips": ["10.16.0.1-10.16.15.254"]},
    }));
    let node = PoolNode::start(&plane, "node-0");
    node.add("first", "rail0");
    let (latencies, mut failed) = (Latencies::default(), 0);
    for phase in 0..2 * PHASES {
        let is_up = phase % 2 == 0;
        match (phase, is_up) {
            (0, _) => {}
            (_, true) => plane.start_api(),
            (_, false) => plane.kill_api(),
        }
        thread::sleep(SETTLE_TIME);
        for number in 0..pods {
            let call = node.call(&format!("c{number}"), &["rail0"]);
            let began = Instant::now();
            let answer = call.add().json();
            latencies.add(is_up, began.elapsed());
            failed += usize::from(!answer["ips"].is_array());
            call.del().done();
        }
    }
    (format!("{} phases of {pods} ADDs: {failed} failed\n{latencies}", 2 * PHASES), failed == 0)
}
