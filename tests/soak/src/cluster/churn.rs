//! Pods that come and go.

use std::{
    collections::HashMap,
    sync::{Mutex, atomic::Ordering},
    time::Instant,
};

use silkrail_tests::pool_node::PoolNode;

use crate::cluster::{Cluster, ClusterNode};

/// The pods that have an address, in the whole cluster.
#[derive(Debug, Default)]
pub(crate) struct AddressOwners(Mutex<HashMap<String, (String, String)>>);

impl AddressOwners {
    /// Adds a pod; returns the one that has the address already.
    fn add(&self, address: String, node: &str, container: &str) -> Option<(String, String)> {
        self.0.lock().unwrap().insert(address, (node.to_owned(), container.to_owned()))
    }

    pub(crate) fn remove_of(&self, node: &str, container: &str) {
        self.0.lock().unwrap().retain(|_, owner| owner.0 != node || owner.1 != container);
    }

    pub(crate) fn remove_node(&self, node: &str) {
        self.0.lock().unwrap().retain(|_, owner| owner.0 != node);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl Cluster {
    /// Starts and ends pods, so that each node has about this number of them.
    pub(crate) fn churn(&self, pods: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            let node = &self.nodes[fastrand::usize(..self.nodes.len())];
            // Only what ends the node holds the lock for writing.
            let Ok(pool_node) = node.node.try_read() else { continue };
            let ended = {
                let mut running = node.pods.lock().unwrap();
                let is_full = running.len() >= pods;
                let chosen = fastrand::usize(..running.len().max(1));
                (is_full || (fastrand::u8(..4) == 0 && !running.is_empty()))
                    .then(|| running.swap_remove(chosen))
            };
            match ended {
                Some(container) => {
                    self.owners.remove_of(&node.name, &container);
                    pool_node.del(&container, "rail0");
                }
                None => self.add(node, &pool_node),
            }
        }
    }

    fn add(&self, node: &ClusterNode, pool_node: &PoolNode) {
        let container = format!("{:016x}", fastrand::u64(..));
        let can_lease = || {
            self.is_api_up.load(Ordering::Relaxed)
                && node.is_agent_up.load(Ordering::Relaxed)
                && !node.link.is_cut()
        };
        let (could_lease, is_api_up) = (can_lease(), self.is_api_up.load(Ordering::Relaxed));
        let began = Instant::now();
        let answer = pool_node.try_add(&container, "rail0").json();
        let took = began.elapsed();
        let Some(address) = answer["ips"][0]["address"].as_str() else {
            let text = answer.to_string();
            let is_excused = (!could_lease || !can_lease()) && text.contains("no free address on this node");
            match is_excused {
                true => drop(self.counts.refused_adds.fetch_add(1, Ordering::Relaxed)),
                false => self.counts.wrong(format!("{}: {text}", node.name)),
            }
            pool_node.del(&container, "rail0");
            return;
        };
        if is_api_up == self.is_api_up.load(Ordering::Relaxed) {
            self.latencies.add(is_api_up, took);
        }
        self.counts.adds.fetch_add(1, Ordering::Relaxed);
        if let Some(other) = self.owners.add(address.to_owned(), &node.name, &container) {
            self.counts.wrong(format!("{address} is used by {}/{container} and by {other:?}", node.name));
        }
        node.pods.lock().unwrap().push(container);
    }
}
