//! What an ADD takes with the API server up and down, on a machine that does nothing else. An ADD of a pool of the node itself, which
//! knows nothing of a cluster, is measured in turn: what both have in common is the state of the machine.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use silkrail_tests::{control_plane::ControlPlane, pool_node::PoolNode};
use testkit::Call;

use crate::latency::Latencies;

/// How often the API server is up, and down.
const PHASES: usize = 4;
/// The time after which a start and an end of the API server have no more effect on the load of the machine.
const SETTLE_TIME: Duration = Duration::from_secs(8);

/// The durations of ADDs of one kind, and how many had no address.
#[derive(Default)]
struct Measured {
    latencies: Latencies,
    failed: usize,
}

impl Measured {
    fn add(&mut self, is_up: bool, call: &Call) {
        let began = Instant::now();
        let answer = call.add().json();
        self.latencies.add(is_up, began.elapsed());
        self.failed += usize::from(!answer["ips"].is_array());
        call.del().done();
    }
}

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
    let pool = json!({"name": "own", "subnet": "10.17.0.0/16", "ips": ["10.17.0.1-10.17.15.254"]});
    let own = json!({"type": "silkrail-ipam", "pools": [pool]});
    let (mut of_cluster, mut of_node) = (Measured::default(), Measured::default());
    for phase in 0..2 * PHASES {
        let is_up = phase % 2 == 0;
        match (phase, is_up) {
            (0, _) => {}
            (_, true) => plane.start_api(),
            (_, false) => plane.kill_api(),
        }
        thread::sleep(SETTLE_TIME);
        for number in 0..pods {
            of_cluster.add(is_up, &node.call(&format!("c{number}"), &["rail0"]));
            of_node.add(is_up, &node.call(&format!("n{number}"), &[]).with("ipam", &own));
        }
    }
    let failed = of_cluster.failed + of_node.failed;
    let text = format!(
        "{} phases of {pods} ADDs of each kind: {failed} failed\npool of the cluster: {}\npool of the node: {}",
        2 * PHASES,
        of_cluster.latencies,
        of_node.latencies
    );
    (text, failed == 0)
}
