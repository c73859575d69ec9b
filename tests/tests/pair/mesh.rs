//! All pairs of several nodes, one of which is not there.

use std::{fs, process::Command};

use silkrail_tests::{
    cli::{self, silkrail},
    pair::{HERE, THERE},
    rxe::RxeProgram,
};
use testkit::wait_until;

use crate::agent::{RemoteAgent, TOKEN, check, no_perftest_is_left};

/// Nobody has this address.
const NOWHERE: &str = "192.0.2.9";

#[test]
fn a_mesh_names_who_failed_and_keeps_what_the_others_have() {
    let _agent = RemoteAgent::start();
    let listen = format!("{HERE}:18514");
    let arguments = ["check", "serve", "--listen", &listen, "--token-file", TOKEN];
    let _ours = RxeProgram::spawn(Command::new(cli::executable()).args(arguments));
    wait_until("this machine's agent listens", || silkrail_tests::rxe::listens(18514));
    let before = kept();
    let options = "--duration 1 --qps 1 --min-gbps 0.001";
    let whole = check(&format!("mesh {HERE} {THERE} {options} --no-store")).ended(0);
    assert!(whole.stderr.contains(&format!("[1/1] {HERE} to {THERE}: ")), "{whole:?}");
    assert_eq!(kept(), before);
    let part = check(&format!("mesh {HERE} {THERE} {NOWHERE} {options} --json")).ended(1);
    let mesh = part.json();
    let (good, bad): (Vec<_>, Vec<_>) =
        mesh["pairs"].as_array().unwrap().iter().partition(|pair| pair["error"].is_null());
    assert_eq!((good.len(), bad.len()), (1, 2), "{mesh}");
    assert_eq!(good[0]["record"]["server"]["node"], "lab-peer");
    for pair in bad {
        assert!(pair["error"].as_str().unwrap().contains(NOWHERE), "{pair}");
    }
    assert_eq!(kept(), before + 1);
    no_perftest_is_left();
    let page = "/run/page.html";
    silkrail(&format!("check page {page}")).ended(0);
    assert!(fs::read_to_string(page).unwrap().contains("lab rxe0/1 to lab-peer rxe0/1"));
}

/// How many results this node keeps.
fn kept() -> usize {
    silkrail("check history --json").json().as_array().unwrap().len()
}
