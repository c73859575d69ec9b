//! A mesh of several nodes, one of which does not exist.

use std::{fs, process::Command};

use silkrail_tests::{
    cli::{self, silkrail},
    pair::{HERE, THERE},
    rxe::RxeProgram,
};
use testkit::wait_until;

use crate::agent::{RemoteAgent, TOKEN, check, no_perftest_is_left};

/// An address that no machine has.
const UNREACHABLE: &str = "192.0.2.9";

#[test]
fn a_mesh_reports_failed_pairs_and_keeps_the_results_of_the_others() {
    let _agent = RemoteAgent::start();
    let listen = format!("{HERE}:18514");
    let arguments = ["check", "serve", "--listen", &listen, "--token-file", TOKEN];
    let _local_agent = RxeProgram::spawn(Command::new(cli::executable()).args(arguments));
    wait_until("this machine's agent listens", || silkrail_tests::rxe::listens(18514));
    let before = stored_results();
    // Beside other machines, an emulated CPU needs longer than the default.
    let options = "--duration 3 --qps 1 --min-gbps 0.001 --test-timeout 120";
    let complete = check(&format!("mesh {HERE} {THERE} {options} --no-store")).ended(0);
    assert!(complete.stderr.contains("2 nodes, 1 round (all pairs), 1 test of 3 s"), "{complete:?}");
    assert!(complete.stderr.contains("round 1/1: 1 test; 0 s left"), "{complete:?}");
    assert_eq!(stored_results(), before);
    let partial = check(&format!("mesh {HERE} {THERE} {UNREACHABLE} {options} --json")).ended(1);
    let mesh = partial.json();
    let (pairs, failed) = (mesh["pairs"].as_array().unwrap(), mesh["failedNodes"].as_array().unwrap());
    assert_eq!((pairs.len(), failed.len()), (1, 1), "{mesh}");
    let ends = ["client", "server"].map(|end| pairs[0]["record"][end]["node"].as_str().unwrap());
    assert!(ends.contains(&"lab") && ends.contains(&"lab-peer"), "{mesh}");
    assert!(failed[0]["error"].as_str().unwrap().contains(UNREACHABLE), "{mesh}");
    // The ports of both nodes are in one subnet, so they are one rail.
    let rails = check(&format!("mesh {HERE} {THERE} {options} --rails --no-store --json")).ended(0).json();
    assert_eq!(rails["rails"], serde_json::json!([{"device": "rxe0", "network": "192.0.2.0/24"}]), "{rails}");
    assert_eq!((&rails["pairs"][0]["rail"], &rails["missingPorts"]), (&0.into(), &serde_json::json!([])));
    assert_eq!(stored_results(), before + 1);
    no_perftest_is_left();
    let page = "/run/page.html";
    silkrail(&format!("check page {page}")).ended(0);
    let page = fs::read_to_string(page).unwrap();
    // The direction of a pair is a part of the sample.
    let directions = ["lab rxe0/1 to lab-peer rxe0/1", "lab-peer rxe0/1 to lab rxe0/1"];
    assert!(directions.iter().any(|direction| page.contains(direction)), "{page}");
}

/// Returns the number of results that this node has stored.
fn stored_results() -> usize {
    silkrail("check history --json").json().as_array().unwrap().len()
}
