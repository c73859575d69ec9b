//! libcni 1.3: every CNI version with its operations.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};
use silkrail_tests::{
    rail::{RailNode, VERSIONS, ip, ipam},
    tools::tools,
};
use testkit::{Observe, TestPod};

/// The network of a node with one CNI version, and libcni as its caller.
struct Network<'a> {
    rail: &'a RailNode,
    conflist: PathBuf,
    program: PathBuf,
}

impl<'a> Network<'a> {
    fn new(rail: &'a RailNode, version: &str) -> Self {
        let macvlan = json!({
            "type": "macvlan", "master": "rail0", "stateDir": rail.node.state_dir(),
            "ipam": ipam(&["10.7.0.10-10.7.0.20"]),
        });
        let conflist = PathBuf::from(format!("/run/{version}.conflist"));
        let network = json!({"cniVersion": version, "name": "rail", "plugins": [macvlan]});
        fs::write(&conflist, network.to_string()).unwrap();
        Self { rail, conflist, program: tools("libcni", "libcni").join("libcni") }
    }

    fn call(&self, operation: &str, container: &str, pod: &TestPod) -> Output {
        Command::new(&self.program)
            .env("CNI_PATH", self.rail.node.cni_path())
            .arg(operation)
            .arg(&self.conflist)
            .args(["/run/cni", container])
            .arg(pod.path())
            .arg("net1")
            .output()
            .unwrap()
    }

    /// Calls an operation that must succeed, and returns what it prints.
    fn ok(&self, operation: &str, container: &str, pod: &TestPod) -> String {
        let output = self.call(operation, container, pod);
        assert!(output.status.success(), "{operation}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn add(&self, container: &str, pod: &TestPod) -> Value {
        serde_json::from_str(&self.ok("ADD", container, pod)).unwrap()
    }
}

#[test]
fn libcni_adds_checks_and_deletes_with_every_version() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    for version in VERSIONS {
        let network = Network::new(&rail, version);
        let result = network.add("container", &rail.pod);
        assert_eq!(result["cniVersion"], version);
        assert_eq!(rail.pod.addresses("net1"), [address(&result)], "{result}");
        if !["0.1.0", "0.2.0", "0.3.0", "0.3.1"].contains(&version) {
            network.ok("CHECK", "container", &rail.pod);
            rail.pod.run_ip("address flush dev net1");
            assert!(!network.call("CHECK", "container", &rail.pod).status.success(), "{version}");
        }
        network.ok("DEL", "container", &rail.pod);
        network.ok("DEL", "container", &rail.pod);
        rail.node.snapshot().assert_is(&before);
    }
}

/// Returns the address of a result with its prefix length, in the format of any version.
fn address(result: &Value) -> String {
    let old = &result["ip4"]["ip"];
    old.as_str().map_or_else(|| result["ips"][0]["address"].as_str().unwrap().to_owned(), str::to_owned)
}

#[test]
fn libcni_asks_for_the_status_and_gc_deletes_all_attachments_except_the_valid_ones() {
    let rail = RailNode::new();
    let other = rail.node.pod("b");
    let before = rail.node.snapshot();
    let network = Network::new(&rail, "1.1.0");
    network.ok("STATUS", "none", &rail.pod);
    let valid = network.add("valid", &rail.pod);
    network.add("stale", &other);

    network.ok("GC", "valid", &rail.pod);
    assert_eq!(rail.node.snapshot().claims(), [ip(&valid)]);
    network.ok("CHECK", "valid", &rail.pod);
    assert_eq!(other.link("net1"), None);

    network.ok("DEL", "valid", &rail.pod);
    rail.node.snapshot().assert_is(&before);
    rail.node.run_ip("link delete rail0");
    let output = network.call("STATUS", "none", &rail.pod);
    assert!(String::from_utf8_lossy(&output.stderr).contains("rail0"), "{output:?}");
}
