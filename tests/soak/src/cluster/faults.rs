//! What ends, and begins again.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use silkrail_tests::control_plane::wait_until;

use crate::cluster::{Cluster, ClusterNode};

/// The time between two faults.
const PAUSE: Duration = Duration::from_secs(4);

impl Cluster {
    /// Makes one fault after another until the end.
    pub(crate) fn break_things(&self, end: Instant) {
        // The pods need addresses first.
        thread::sleep(PAUSE);
        let mut kind = 0;
        while Instant::now() + Duration::from_secs(20) < end {
            let node = &self.nodes[fastrand::usize(..self.nodes.len())];
            match kind % 6 {
                0 => self.restart_agent(node),
                1 => self.restart_api(),
                2 => self.cut_some(),
                3 => self.reboot(node),
                4 => self.restart_etcd(),
                _ => self.replace(node),
            }
            kind += 1;
            self.counts.faults.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        self.nodes.iter().for_each(|node| node.link.set_cut(false));
    }

    /// The agent is killed, and pods continue to come and go.
    fn restart_agent(&self, node: &ClusterNode) {
        println!("fault: the agent of {} is killed", node.name);
        node.is_agent_up.store(false, Ordering::Relaxed);
        node.node.write().unwrap().kill_agent();
        thread::sleep(Duration::from_secs(2));
        node.node.write().unwrap().start_agent();
        node.is_agent_up.store(true, Ordering::Relaxed);
    }

    fn restart_api(&self) {
        println!("fault: the API server is killed");
        self.is_api_up.store(false, Ordering::Relaxed);
        let mut plane = self.plane.write().unwrap();
        plane.kill_api();
        thread::sleep(Duration::from_secs(fastrand::u64(3..10)));
        plane.start_api();
        self.settle();
    }

    fn restart_etcd(&self) {
        println!("fault: etcd is killed");
        self.is_api_up.store(false, Ordering::Relaxed);
        let mut plane = self.plane.write().unwrap();
        plane.kill_etcd();
        thread::sleep(Duration::from_secs(fastrand::u64(3..10)));
        plane.start_etcd();
        wait_until("the API server is ready", || plane.try_kubectl(&["get", "--raw", "/readyz"]).0);
        self.settle();
    }

    /// Agents try again after eight seconds at the latest.
    fn settle(&self) {
        thread::sleep(Duration::from_secs(9));
        self.is_api_up.store(true, Ordering::Relaxed);
    }

    /// A fifth of the nodes cannot reach the API server, and requests that they have sent may be executed.
    fn cut_some(&self) {
        println!("fault: some nodes are cut off");
        let cut: Vec<_> = self.nodes.iter().filter(|_| fastrand::u8(..5) == 0).collect();
        cut.iter().for_each(|node| node.link.set_cut(true));
        thread::sleep(Duration::from_secs(fastrand::u64(5..20)));
        // Connections continue after a while: requests have timed out meanwhile.
        cut.iter().for_each(|node| node.is_agent_up.store(false, Ordering::Relaxed));
        cut.iter().for_each(|node| node.link.set_cut(false));
        thread::sleep(Duration::from_secs(9));
        cut.iter().for_each(|node| node.is_agent_up.store(true, Ordering::Relaxed));
    }

    fn reboot(&self, node: &ClusterNode) {
        println!("fault: {} is rebooted", node.name);
        let mut pool_node = node.node.write().unwrap();
        pool_node.switch_off();
        self.owners.remove_node(&node.name);
        node.pods.lock().unwrap().clear();
        pool_node.start_agent();
        pool_node.wait_for_pools();
    }

    /// The machine is replaced: its object is deleted, and created again under the same name.
    fn replace(&self, node: &ClusterNode) {
        println!("fault: {} is replaced", node.name);
        let mut pool_node = node.node.write().unwrap();
        pool_node.switch_off();
        self.owners.remove_node(&node.name);
        node.pods.lock().unwrap().clear();
        let plane = self.plane.read().unwrap();
        plane.kubectl(&["delete", "node", &node.name]);
        plane.add_node(&node.name);
        pool_node.start_agent();
        pool_node.wait_for_pools();
    }
}
