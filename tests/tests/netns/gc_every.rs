//! `silkrail gc --every`, which runs in a container: see `conf/silkrail-gc`.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::json;
use testkit::Observe;

use silkrail_tests::{
    cli::{executable, silkrail},
    conf,
    evidence::ProcFixture,
    rail::RailNode,
};

use crate::gc::stale_node;

/// A running `silkrail gc --every`, which is killed when this value is dropped.
struct PeriodicGc {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl PeriodicGc {
    fn start(evidence: &ProcFixture, seconds: u32) -> Self {
        let mut command = Command::new(executable());
        command.arg("--root").arg(evidence.root()).args(["gc", "--yes", "--every", &seconds.to_string()]);
        command.arg("--state-dir").arg(evidence.state());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The log lines of a run, up to its last.
    fn run(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("msg=\"run ended\"")) {
            lines.push(self.lines.next().expect("it has exited").unwrap());
        }
        lines
    }

    /// Sends a signal, and returns the exit status.
    fn terminate(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for PeriodicGc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_run_reverts_what_is_stale_by_then_and_logs_it() {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let mut gc = PeriodicGc::start(&evidence, 1);
    let first = gc.run();
    assert!(first[0].ends_with("level=info msg=\"run ended\" reverted=0 left=0"), "{first:?}");
    assert!(rail.macvlan(&json!({})).fault("kill:6").add().was_killed());
    let reverted = (0..60).map(|_| gc.run()).find(|lines| lines.len() > 1).expect("the second run");
    let journal = reverted.iter().find(|line| line.contains("macvlan of network rail")).unwrap();
    for part in
        ["time=2", "level=info msg=\"reverted\" what=\"journal\" attachment=\"c0ffee@net1\"", "was killed"]
    {
        assert!(journal.contains(part), "{part}: {journal}");
    }
    let last = reverted.last().unwrap();
    assert!(last.ends_with(&format!("reverted={} left=0", reverted.len() - 1)), "{reverted:?}");
    assert_eq!(gc.terminate("TERM"), Some(0));
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn a_signal_ends_the_wait_with_success() {
    for signal in ["TERM", "INT", "HUP"] {
        let (_node, _switch, evidence) = stale_node();
        let mut gc = PeriodicGc::start(&evidence, 86400);
        assert!(gc.run().len() > 1, "the first run is at the start");
        assert_eq!(gc.terminate(signal), Some(0), "{signal}");
    }
}

#[test]
fn what_cannot_be_reverted_is_logged_and_tried_again() {
    let (node, _switch, evidence) = stale_node();
    let unknown = node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    std::fs::rename(&unknown, unknown.with_file_name("c0ffee@net1.unknown.journal")).unwrap();
    let mut gc = PeriodicGc::start(&evidence, 1);
    for _ in 0..2 {
        let lines = gc.run();
        let left =
            lines.iter().find(|line| line.contains("msg=\"left\"")).unwrap_or_else(|| panic!("{lines:?}"));
        assert!(
            left.contains("level=warning") && left.contains("error=\"this version of Silkrail has no plugin"),
            "{left}"
        );
        assert!(lines.last().unwrap().ends_with("left=1"), "{lines:?}");
    }
}

#[test]
fn an_invalid_interval_is_wrong_usage_and_an_error_of_a_run_ends_it() {
    for (args, expected) in [
        ("gc --yes --every 0", "0 is not in 1..=86400"),
        ("gc --yes --every 86401", "86401 is not in 1..=86400"),
        ("gc --yes --every 10min", "invalid value '10min' for '--every <SECONDS>'"),
        ("gc --every 600", "--yes"),
        ("gc --yes --every 600 --json", "cannot be used with '--json'"),
    ] {
        let refused = silkrail(args).ended(2);
        assert!(refused.stderr.contains(expected), "{args}: {}", refused.stderr);
    }
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let own = evidence.root().join("proc/self/ns/pid");
    std::fs::remove_file(&own).unwrap();
    std::os::unix::fs::symlink("pid:[4026532000]", &own).unwrap();
    let refused = evidence.gc("--yes --every 600").ended(1);
    assert!(refused.stderr.contains("only the initial one"), "{}", refused.stderr);
}

/// Whether `silkrail gc --yes` reverts a killed ADD of a running pod, and an attachment of a pod that is gone, with these
/// capabilities.
fn reverts_with(capabilities: &[String]) -> bool {
    let rail = RailNode::new();
    let evidence = ProcFixture::of(&rail.node);
    let other = rail.node.pod("b");
    rail.macvlan(&json!({})).pod(&other).container("gone").add().ok();
    other.end();
    assert!(rail.macvlan(&json!({})).fault("kill:9").add().was_killed());
    assert!(rail.pod.link("net1").is_some(), "gc must enter the pod");
    let mut process = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "600"])
        .spawn()
        .unwrap();
    testkit::wait_until("the process has another user", || {
        std::fs::read_to_string(format!("/proc/{}/comm", process.id())).is_ok_and(|name| name == "sleep\n")
    });
    evidence.process(process.id());
    let bounding: String = capabilities.iter().map(|name| format!(",+{}", name.to_lowercase())).collect();
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", &format!("--bounding-set=-all{bounding}"), "--no-new-privs"])
        .arg(executable())
        .arg("--root")
        .arg(evidence.root())
        .args(["gc", "--yes", "--state-dir"])
        .arg(evidence.state())
        .output()
        .unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    println!("{bounding}: {output:?}");
    output.status.success() && rail.node.snapshot().state().is_empty()
}

#[test]
fn the_capabilities_of_the_daemon_set_are_enough_and_each_of_them_is_needed() {
    let daemon_set = conf::object("silkrail-gc/daemonset.yaml", "DaemonSet");
    let security = &daemon_set["spec"]["template"]["spec"]["containers"][0]["securityContext"];
    let all: Vec<String> = serde_json::from_value(security["capabilities"]["add"].clone()).unwrap();
    assert!(reverts_with(&all), "they are not enough");
    for one in &all {
        let rest: Vec<_> = all.iter().filter(|name| *name != one).cloned().collect();
        assert!(!reverts_with(&rest), "{one} is not needed");
    }
}
