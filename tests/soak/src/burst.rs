//! All pods of a cluster start at once: what a burst costs.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use serde_json::json;
use silkrail_tests::{control_plane::ControlPlane, pool_node::PoolNode};

use crate::latency::Latencies;

/// The numbers of a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BurstSize {
    pub(crate) nodes: usize,
    /// Pods of each node.
    pub(crate) pods: usize,
    /// Interfaces of each pod, each with a pool of its own.
    pub(crate) interfaces: usize,
    /// Pods that start at the same time.
    pub(crate) workers: usize,
}

/// Starts all pods, and returns an account of it and whether all addresses differ.
pub(crate) fn start_all(size: BurstSize) -> (String, bool) {
    let BurstSize { nodes, pods, interfaces, workers } = size;
    let plane = ControlPlane::start();
    for rail in 0..interfaces {
        plane.apply(&json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderIPPool",
            "metadata": {"name": format!("rail{rail}")},
            "spec": {"subnet": format!("10.{}.0.0/16", 16 + rail), "ips": [format!("10.{0}.0.10-10.{0}.63.250", 16 + rail)]},
        }));
    }
    let nodes: Vec<_> =
        (0..nodes).map(|number| PoolNode::start(&plane, &format!("node-{number:03}"))).collect();
    let before = plane.requests();
    println!("{} nodes run", nodes.len());
    let (next, used, failed) = (AtomicUsize::new(0), Mutex::new(HashSet::new()), Mutex::new(Vec::new()));
    let latencies = Latencies::default();
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    // The pods of all nodes start in turn.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(node) = nodes.get(number % nodes.len()).filter(|_| number < nodes.len() * pods)
                    else {
                        return;
                    };
                    for rail in 0..interfaces {
                        let call = node.call(&format!("c{number}"), &[&format!("rail{rail}")]);
                        let began = Instant::now();
                        let answer = call.ifname(&format!("net{rail}")).add().json();
                        latencies.add(true, began.elapsed());
                        match answer["ips"][0]["address"].as_str() {
                            Some(address) if used.lock().unwrap().insert(address.to_owned()) => {}
                            other => failed.lock().unwrap().push(format!("{other:?} {answer}")),
                        }
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    let mut text = format!("{size:?}: {} addresses in {took:.1?}\n{latencies}\n", used.lock().unwrap().len());
    for (request, count) in plane.requests() {
        let count = count - before.get(&request).copied().unwrap_or_default();
        if count > 0 {
            text += &format!("{count:8} {request}\n");
        }
    }
    let failed = failed.into_inner().unwrap();
    failed.iter().take(10).for_each(|failed| text += &format!("WRONG: {failed}\n"));
    (text, failed.is_empty())
}
