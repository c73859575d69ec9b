//! `silkrail pods --watch`.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::json;
use silkrail_tests::{cli::executable, rail::RailNode};

#[test]
fn a_watch_shows_pods_that_come_and_go() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({})).args("K8S_POD_NAMESPACE=train;K8S_POD_NAME=job-0");
    let other = rail.node.pod("b");
    let other =
        rail.macvlan(&json!({})).pod(&other).container("other").args("K8S_POD_NAMESPACE=web;K8S_POD_NAME=x");
    let mut command = Command::new(executable());
    command.args(["pods", "-n", "train", "--watch", "--state-dir"]).arg(rail.node.state_dir());
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("NAMESPACE"));
    other.add().ok();
    let result = call.add().ok();
    let words = |line: String| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let added = words(lines.next().unwrap());
    assert_eq!(added[..3], ["train", "job-0", "net1"]);
    assert!(added.iter().any(|word| result["ips"][0]["address"] == **word), "{added:?}");
    assert_eq!(added.last().unwrap(), "ok");
    call.del().done();
    let gone = words(lines.next().unwrap());
    assert_eq!((&gone[..3], gone.last().unwrap().as_str()), (&added[..3], "deleted"));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
