//! What a kubeconfig cannot make silkraild do.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use silkrail_tests::daemon::{self, Daemon};
use testkit::wait_until;

use crate::DaemonFixture;

/// The process that reads pods has capabilities; a program that it starts would have them too.
#[test]
fn an_exec_plugin_of_a_kubeconfig_is_not_started() {
    let node = DaemonFixture::new();
    let below = |name: &str| node.0.path().join(name);
    let (program, started, file) = (below("program"), below("started"), below("kubeconfig"));
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", started.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": program, "interactiveMode": "Never",
    });
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"exec": exec}}],
    });
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let mut command = Command::new(daemon::executable());
    command.env_remove("KUBERNETES_SERVICE_HOST").env("KUBECONFIG", &file).args(node.options());
    let daemon = Daemon::spawn(&mut command);
    wait_until("it has collected", || daemon.health("/readyz").status == 200);
    for part in ["the user of the current context has exec", "expected token, tokenFile"] {
        daemon.wait_for_log(part);
    }
    assert!(!started.exists());
    assert_eq!(daemon.request("GET /metrics", &[]).status, 200, "all other metrics are served");
}
