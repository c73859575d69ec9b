//! A node with one rail, which most tests use.

use std::{
    fs::{self, File},
    net::UdpSocket,
};

use netns::NetNs;
use serde_json::{Value, json};
use testkit::{Call, FakeIpam, Observe, TestNode, TestPod};

/// All CNI versions, oldest first.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// A node whose link `rail0` is connected to `port0` of a switch, and a pod.
#[derive(Debug)]
pub struct RailNode {
    /// The pod.
    pub pod: TestPod,
    /// The namespace of the switch.
    pub switch: TestPod,
    /// The node.
    pub node: TestNode,
}

impl RailNode {
    /// Creates a node with its rail, and an empty pod.
    #[expect(clippy::new_without_default, reason = "it creates a namespace")]
    pub fn new() -> Self {
        let node = TestNode::new();
        let (pod, switch) = (node.pod("a"), node.pod("switch"));
        node.cable("rail0", &switch, "port0");
        Self { pod, switch, node }
    }

    /// Ends the pod, and returns the rail with another pod.
    ///
    /// # Panics
    /// If the pod had no namespace.
    #[must_use]
    pub fn next_pod(self, name: &str) -> Self {
        let Self { pod, node, switch } = self;
        // The kernel reuses the inode number of a deleted namespace, and other tests create namespaces at the same time. A
        // socket keeps the number in use, and is not visible outside this process.
        let netns = NetNs::open(pod.path()).unwrap();
        std::mem::forget(netns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap());
        drop(netns);
        pod.end();
        show_every_process(&node);
        Self { pod: node.pod(name), node, switch }
    }

    /// Lets GC determine which pods are running: see [`show_every_process`].
    #[must_use]
    pub fn with_every_process(self) -> Self {
        show_every_process(&self.node);
        self
    }

    /// Returns a call of macvlan for the pod, with the keys `more` added to the default configuration.
    pub fn macvlan(&self, more: &Value) -> Call {
        self.plugin(
            "macvlan",
            &merged(json!({"master": "rail0", "ipam": ipam(&["10.7.0.10-10.7.0.20"])}), more),
        )
    }

    /// Returns a call of macvlan without addresses.
    pub fn layer_2(&self, more: &Value) -> Call {
        self.plugin("macvlan", &merged(json!({"master": "rail0", "ipam": {}}), more))
    }

    /// Returns a call of macvlan with a fake IPAM plugin.
    pub fn with_ipam(&self, ipam: &FakeIpam) -> Call {
        self.macvlan(&json!({"ipam": {"type": "fake"}})).delegates_in(ipam.dir())
    }

    /// Returns a call of silkrail-ipam as a main plugin with this `ipam`.
    pub fn ipam(&self, ipam: &Value) -> Call {
        self.plugin("silkrail-ipam", &json!({"ipam": merged(json!({"type": "silkrail-ipam"}), ipam)}))
    }

    fn plugin(&self, plugin: &str, more: &Value) -> Call {
        let conf = merged(json!({"cniVersion": "1.1.0", "name": "rail", "type": plugin}), more);
        self.node.plugin(plugin).conf(&conf).pod(&self.pod)
    }
}

/// Hides process 1, which cannot be read in a sandbox: GC could not determine which pods are running.
fn show_every_process(node: &TestNode) {
    let first = node.state_dir().with_file_name("first");
    fs::create_dir_all(&first).unwrap();
    File::create(first.join("mountinfo")).unwrap();
    node.run("mount", &["--bind", first.to_str().unwrap(), "/proc/1"]);
}

/// Returns an `ipam` with one pool of these ranges.
pub fn ipam(ips: &[&str]) -> Value {
    json!({"type": "silkrail-ipam", "pools": [pool("rail", ips)]})
}

/// Returns a pool of 10.7.0.0/24.
pub fn pool(name: &str, ips: &[&str]) -> Value {
    json!({"name": name, "subnet": "10.7.0.0/24", "ips": ips, "gateway": "10.7.0.1"})
}

/// Returns a pool of fd00:7::/64 without a gateway: with one, ADD waits for duplicate address detection.
pub fn pool6(name: &str, ips: &[&str]) -> Value {
    json!({"name": name, "subnet": "fd00:7::/64", "ips": ips})
}

/// Returns an object with the keys of both; those of the second take precedence.
pub fn merged(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// Returns the addresses of a result, without their prefix lengths.
pub fn ips(result: &Value) -> Vec<String> {
    let of = |ip: &Value| ip["address"].as_str().unwrap().split('/').next().unwrap().to_owned();
    result["ips"].as_array().map(|ips| ips.iter().map(of).collect()).unwrap_or_default()
}

/// Returns the only address of a result, without its prefix length.
pub fn ip(result: &Value) -> String {
    let all = ips(result);
    assert_eq!(all.len(), 1, "{result}");
    all[0].clone()
}
