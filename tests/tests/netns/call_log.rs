//! The log line of each call.

use std::fs;

use serde_json::{Value, json};
use testkit::Call;

use silkrail_tests::rail::RailNode;

/// Returns the value of a field of a log line, without quotes.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{name}: {line}"));
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap().0,
        None => rest.split(' ').next().unwrap(),
    }
}

/// Returns the milliseconds of `12.3ms`.
fn milliseconds(text: &str) -> f64 {
    text.strip_suffix("ms").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Returns the names of a line's steps, whose durations must add up to that of the call.
fn steps(line: &str) -> Vec<String> {
    let steps: Vec<_> = field(line, "steps").split(',').map(|step| step.split_once('=').unwrap()).collect();
    let total: f64 = steps.iter().map(|(_, took)| milliseconds(took)).sum();
    let duration = milliseconds(field(line, "duration"));
    assert!((total - duration).abs() < 1.0, "{line}");
    steps.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn only_line(answer: &testkit::Answer) -> &str {
    let lines: Vec<_> = answer.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines[0]
}

fn call(rail: &RailNode) -> Call {
    rail.macvlan(&json!({"rail": true})).args("IgnoreUnknown=1;K8S_POD_NAMESPACE=team-a;K8S_POD_NAME=job-0")
}

#[test]
fn each_call_is_one_line_with_its_steps() {
    let rail = RailNode::new();
    let call = call(&rail);
    let added = call.add();
    let line = only_line(&added);
    let names = ["msg", "cniName", "containerID", "ifname", "pod", "device"];
    let expected = ["ADD", "macvlan", "c0ffee", "net1", "team-a/job-0", "rail0"];
    assert_eq!(names.map(|name| field(line, name)), expected, "{line}");
    assert_eq!(steps(line), ["ipam", "link", "addresses", "rules", "podmap", "other"]);
    let checked = call.check_after(&added.ok());
    assert_eq!(field(only_line(&checked), "msg"), "CHECK");
    let deleted = call.del();
    assert_eq!(field(only_line(&deleted), "msg"), "DEL");
    assert_eq!(steps(only_line(&deleted)), ["podmap", "rules", "link", "ipam", "other"]);
    assert_eq!(call.status().stderr, "");
}

#[test]
fn the_argument_debug_is_the_log_level_debug() {
    let rail = RailNode::new();
    let status = |keys: Value| rail.macvlan(&keys).status().stderr;
    let debug = json!({"cni": {"debug": true}});
    assert_eq!(status(json!({"args": {"cni": {"debug": false}}})), "");
    assert!(status(json!({"args": debug})).contains("level=debug"));
    assert_eq!(status(json!({"args": debug, "logLevel": "info"})), "");
    assert_eq!(status(json!({"args": debug, "logLevel": "panic"})), "");
    assert!(status(json!({"logLevel": "debug"})).contains("level=debug"));
}

#[test]
fn a_failed_call_is_one_line_with_its_error() {
    let rail = RailNode::new();
    let log = rail.node.log_file("silkrail.log");
    let failed = call(&rail).with("logFile", &json!(log)).fault("error:4").add();
    failed.error(999);
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(["level", "msg", "code"].map(|name| field(lines[0], name)), ["error", "ADD failed", "999"]);
    assert_eq!(field(lines[0], "error"), "injected fault");
    assert!(!steps(lines[0]).is_empty());
}

#[test]
fn what_was_left_behind_is_in_the_line_and_in_the_error() {
    let rail = RailNode::new();
    let call = call(&rail);
    call.add().ok();
    let deleted = call.clone().fault("error:1").del();
    let error: Value = serde_json::from_str(&deleted.stdout).unwrap();
    let left = "failed to revert: pod map entry of c0ffee@net1";
    assert!(error["msg"].as_str().unwrap().starts_with(left), "{error}");
    assert!(field(only_line(&deleted), "error").starts_with(left), "{deleted:?}");
    call.del().done();
}
