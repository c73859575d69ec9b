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
    let options = "--duration 1 --qps 1 --min-gbps 0.001";
    let complete = check(&format!("mesh {HERE} {THERE} {options} --no-store")).ended(0);
    assert!(complete.stderr.contains(&format!("[1/1] {HERE} to {THERE}: ")), "{complete:?}");
    assert_eq!(stored_results(), before);
    let partial = check(&format!("mesh {HERE} {THERE} {UNREACHABLE} {options} --json")).ended(1);
    let mesh = partial.json();
    let (passed, failed): (Vec<_>, Vec<_>) =
        mesh["pairs"].as_array().unwrap().iter().partition(|pair| pair["error"].is_null());
    assert_eq!((passed.len(), failed.len()), (1, 2), "{mesh}");
    assert_eq!(passed[0]["record"]["server"]["node"], "lab-peer");
    for pair in failed {
        assert!(pair["error"].as_str().unwrap().contains(UNREACHABLE), "{pair}");
    }
    assert_eq!(stored_results(), before + 1);
    no_perftest_is_left();
    let page = "/run/page.html";
    silkrail(&format!("check page {page}")).ended(0);
    assert!(fs::read_to_string(page).unwrap().contains("lab rxe0/1 to lab-peer rxe0/1"));
}

/// Returns the number of results that this node has stored.
fn stored_results() -> usize {
    silkrail("check history --json").json().as_array().unwrap().len()
}
