//! The condition `RDMAHealthy` of a node, with the rights of `conf/silkraild-node-condition`.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use silkrail_tests::{
    control_plane::{ControlPlane, wait_until},
    daemon::{self, Daemon},
};

fn node(plane: &ControlPlane) -> Value {
    plane.api().get("nodes", "", "lab").unwrap()
}

fn condition(plane: &ControlPlane, kind: &str) -> Option<Value> {
    node(plane)["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
        .cloned()
}

#[test]
fn silkraild_sets_the_condition_of_its_node_and_can_do_nothing_else() {
    let plane = ControlPlane::shared();
    plane.apply_file("silkraild-node-condition/rbac");
    plane.add_node("lab");
    plane.set_ready("lab", true);
    let state = tempfile::tempdir().unwrap();
    let record = |findings: Value| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let record = json!({"time": time, "findings": findings, "omitted": 0, "ended": []});
        fs::write(state.path().join("doctor.json"), record.to_string()).unwrap();
    };
    let start = || {
        let mut command = Command::new(daemon::executable());
        command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", plane.daemon_kubeconfig());
        command.args([
            "--kubernetes",
            "off",
            "--node-condition",
            "--state-dir",
            state.path().to_str().unwrap(),
        ]);
        Daemon::spawn(&mut command)
    };
    let status = || condition(&plane, "RDMAHealthy").map(|condition| condition["status"].clone());
    record(
        json!([{"id": "link-down", "severity": "error", "object": "eth0", "summary": "it is down", "since": 1}]),
    );
    let first = start();
    wait_until("the condition is set", || status() == Some(json!("False")));
    let before = condition(&plane, "RDMAHealthy").unwrap();
    assert_eq!(before["reason"], "LinkDown");
    assert_eq!(before["message"], "1 error, 0 warnings: link-down eth0: it is down");
    assert_eq!(condition(&plane, "Ready").unwrap()["status"], "True", "that of the kubelet stays");
    drop(first);
    // Times have a resolution of a second.
    thread::sleep(Duration::from_millis(1100));
    let second = start();
    let of = |key: &str| condition(&plane, "RDMAHealthy").unwrap()[key].clone();
    wait_until("the heartbeat is set", || of("lastHeartbeatTime") != before["lastHeartbeatTime"]);
    assert_eq!(of("lastTransitionTime"), before["lastTransitionTime"]);
    drop(second);
    thread::sleep(Duration::from_millis(1100));
    fs::remove_file(state.path().join("doctor.json")).unwrap();
    let _third = start();
    wait_until("the condition is unknown", || status() == Some(json!("Unknown")));
    assert_ne!(of("lastTransitionTime"), before["lastTransitionTime"]);
    assert_eq!(of("reason"), "NotExamined");
    let can = |verb: &str, resource: &str| plane.api().can("silkraild", verb, resource);
    assert!(can("patch", "nodes/status"));
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
        for resource in ["nodes", "pods", "secrets", "leases"] {
            assert!(!can(verb, resource), "{verb} {resource}");
        }
    }
}
