//! The condition of the node in the Kubernetes API.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use silkrail_tests::{
    daemon::{self, Daemon},
    node_api::NodeApi,
};
use testkit::wait_until;

use crate::DaemonFixture;

impl DaemonFixture {
    /// Writes the record of an examination that has just ended.
    fn record(&self, findings: &Value) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let record = json!({"time": time, "findings": findings, "omitted": 0, "ended": []});
        // With --root, the state directory is below it.
        let directory = self.0.path().join(self.root().trim_start_matches('/'));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("doctor.json"), record.to_string()).unwrap();
    }

    fn with_condition(&self, api: &NodeApi) -> Daemon {
        let mut command = Command::new(daemon::executable());
        command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", api.kubeconfig());
        command.args(self.options()).args(["--kubernetes", "off", "--node-condition"]);
        Daemon::spawn(&mut command)
    }
}

fn link_down() -> Value {
    json!([{"id": "link-down", "severity": "error", "object": "eth0", "summary": "it is down", "since": 1}])
}

#[test]
fn the_condition_of_the_node_is_that_of_the_record_and_keeps_its_transition_over_restarts() {
    let (node, api) = (DaemonFixture::new(), NodeApi::start("lab"));
    node.record(&link_down());
    let condition =
        |key: &str| api.condition("RDMAHealthy").map(|condition| condition[key].as_str().unwrap().to_owned());
    let has = |status: &str| condition("status").as_deref() == Some(status);
    let first = node.with_condition(&api);
    wait_until("the condition is set", || has("False"));
    assert_eq!(condition("reason").as_deref(), Some("LinkDown"));
    assert_eq!(condition("message").as_deref(), Some("1 error, 0 warnings: link-down eth0: it is down"));
    assert!(api.condition("Ready").is_some(), "other conditions stay");
    let began = condition("lastTransitionTime");
    // A change is not published within a minute of the last update.
    node.record(&json!([]));
    thread::sleep(Duration::from_secs(12));
    assert_eq!(api.patches().len(), 2, "an empty patch reads the node: {:?}", api.patches());
    assert_eq!(api.patches()[0], json!({}));
    drop(first);
    node.record(&link_down());
    let second = node.with_condition(&api);
    wait_until("the heartbeat is set", || condition("lastHeartbeatTime") > began);
    assert_eq!(
        (condition("status").as_deref(), condition("lastTransitionTime")),
        (Some("False"), began.clone())
    );
    drop(second);
    node.record(&json!([]));
    let _third = node.with_condition(&api);
    wait_until("the condition has changed", || has("True"));
    assert!(condition("lastTransitionTime") > began);
}

#[test]
fn a_refusal_is_logged_and_the_metrics_are_served() {
    let (node, api) = (DaemonFixture::new(), NodeApi::start("lab"));
    api.forbid(true);
    let daemon = node.with_condition(&api);
    let log = daemon.wait_for_log("RDMAHealthy cannot be updated");
    assert!(log.contains("nodes \"lab\" is forbidden"), "{log}");
    assert_eq!(log.matches("cannot be updated").count(), 1, "{log}");
    wait_until("it has collected", || daemon.health("/readyz").status == 200);
    assert_eq!(daemon.request("GET /metrics", &[]).status, 200);
    assert_eq!(api.patches().len(), 0);
}

#[test]
fn without_the_option_the_api_is_not_asked() {
    let (node, api) = (DaemonFixture::new(), NodeApi::start("lab"));
    node.record(&link_down());
    let mut command = Command::new(daemon::executable());
    command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", api.kubeconfig());
    command.args(node.options()).args(["--kubernetes", "off"]);
    let daemon = Daemon::spawn(&mut command);
    wait_until("it has collected", || daemon.health("/readyz").status == 200);
    assert_eq!(api.patches().len(), 0);
}
