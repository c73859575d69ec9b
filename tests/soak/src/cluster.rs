//! A cluster with a real API server: pods come and go on many nodes, and everything else ends at any time.

mod churn;
mod faults;

use std::{
    fmt,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    partition::InterruptibleLink,
    pool_node::PoolNode,
};

use self::churn::AddressOwners;
use crate::latency::Latencies;

/// The addresses of the pool: more than all pods need, because each node has some in reserve.
const ADDRESSES: &str = "10.16.0.0-10.16.63.255";

/// The seconds of a run after which the number of writes is checked.
const LONG: u64 = 300;

/// The cluster, shared by all threads.
pub(crate) struct Cluster {
    plane: RwLock<ControlPlane>,
    nodes: Vec<ClusterNode>,
    owners: AddressOwners,
    is_over: AtomicBool,
    /// Whether the API server and etcd run.
    is_api_up: AtomicBool,
    counts: Counts,
    latencies: Latencies,
}

/// A node. A pod holds the lock for reading, what ends the node for writing.
pub(crate) struct ClusterNode {
    name: String,
    node: RwLock<PoolNode>,
    link: InterruptibleLink,
    is_agent_up: AtomicBool,
    /// The containers that have an address.
    pods: Mutex<Vec<String>>,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    adds: AtomicUsize,
    /// ADDs without an address while the node could not reach the API server.
    refused_adds: AtomicUsize,
    faults: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// The result.
pub(crate) struct ClusterTally {
    text: String,
    passed: bool,
}

impl ClusterTally {
    pub(crate) fn passed(&self) -> bool {
        self.passed
    }
}

impl fmt::Display for ClusterTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Counts {
    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

/// Runs pods on nodes until the end.
pub(crate) fn soak(nodes: usize, pods: usize, workers: usize, seconds: u64) -> ClusterTally {
    let mut plane = ControlPlane::start();
    plane.apply(&json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": "rail0", "annotations": {"ipam.silkrail.io/block-size": "64"}},
        "spec": {"subnet": "10.16.0.0/16", "ips": [ADDRESSES]},
    }));
    plane.start_controller(&["--short-hold-down", "20"]);
    let nodes: Vec<_> = (0..nodes).map(|number| ClusterNode::start(&plane, number)).collect();
    let cluster = Cluster {
        plane: RwLock::new(plane),
        nodes,
        owners: AddressOwners::default(),
        is_over: AtomicBool::new(false),
        is_api_up: AtomicBool::new(true),
        counts: Counts::default(),
        latencies: Latencies::default(),
    };
    println!("{} nodes run", cluster.nodes.len());
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| cluster.churn(pods));
        }
        scope.spawn(|| cluster.break_things(end));
        while Instant::now() < end {
            thread::sleep(Duration::from_secs(10).min(end.saturating_duration_since(Instant::now())));
            println!(
                "{} ADDs, {} addresses in use",
                cluster.counts.adds.load(Ordering::Relaxed),
                cluster.owners.len()
            );
        }
        cluster.is_over.store(true, Ordering::Relaxed);
    });
    cluster.end();
    cluster.tally(seconds >= LONG)
}

impl ClusterNode {
    fn start(plane: &ControlPlane, number: usize) -> Self {
        let name = format!("node-{number:03}");
        plane.add_node(&name);
        let (link, kubeconfig) = plane.agent_link();
        let node = PoolNode::start_over(kubeconfig, &name);
        Self {
            name,
            node: RwLock::new(node),
            link,
            is_agent_up: AtomicBool::new(true),
            pods: Mutex::default(),
        }
    }
}

impl Cluster {
    /// Ends all pods, and checks that nothing is left of them.
    fn end(&self) {
        for node in &self.nodes {
            let pool_node = node.node.read().unwrap();
            for container in std::mem::take(&mut *node.pods.lock().unwrap()) {
                self.owners.remove_of(&node.name, &container);
                pool_node.del(&container, "rail0");
            }
            let left = pool_node.claims();
            if !left.is_empty() {
                self.counts.wrong(format!("{} has claims without a pod: {left:?}", node.name));
            }
        }
        let plane = self.plane.read().unwrap();
        let uids: Vec<_> = plane.list("nodes").iter().map(|node| node["metadata"]["uid"].clone()).collect();
        let is_lost = |block: &serde_json::Value| {
            block["spec"].get("owner").is_some_and(|owner| !uids.contains(&owner["nodeUID"]))
        };
        wait_until("no block belongs to a node that is gone", || !plane.list("ipblocks").iter().any(is_lost));
    }

    /// Returns the result. After a short run, most writes are those of the first blocks.
    fn tally(&self, is_long: bool) -> ClusterTally {
        let requests = self.plane.read().unwrap().requests();
        let adds = self.counts.adds.load(Ordering::Relaxed);
        let is_write = |request: &str| {
            ["create", "patch", "update", "delete"].iter().any(|verb| request.starts_with(verb))
        };
        let of_blocks =
            requests.iter().filter(|(request, _)| request.contains("ipblocks") && is_write(request));
        let writes: usize = of_blocks.map(|(_, count)| count).sum();
        let wrong = self.counts.wrong.lock().unwrap();
        let mut text = format!(
            "{adds} ADDs with an address, {} refused without the API server, {} faults\n",
            self.counts.refused_adds.load(Ordering::Relaxed),
            self.counts.faults.load(Ordering::Relaxed),
        );
        text += &format!("{}\n", self.latencies);
        for (request, count) in &requests {
            text += &format!("{count:8} {request}\n");
        }
        text += &format!(
            "{writes} writes of blocks: one for {} addresses\n",
            adds.checked_div(writes).unwrap_or(0)
        );
        for wrong in wrong.iter().take(20) {
            text += &format!("WRONG: {wrong}\n");
        }
        text += &format!("{} wrong", wrong.len());
        ClusterTally { passed: wrong.is_empty() && adds > 0 && (!is_long || writes * 32 <= adds), text }
    }
}
