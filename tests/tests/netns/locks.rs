//! Waiting for whoever holds a lock: who does so says so.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use serde_json::json;
use testkit::{Call, wait_until};

use silkrail_tests::rail::Rail;

/// How long the other process holds the lock, in seconds.
const HELD: &str = "0.4";

/// A process that holds a file's lock for a while.
fn hold(file: &Path) -> Child {
    let holder = Command::new("flock").arg(file).args(["sleep", HELD]).spawn().expect("util-linux");
    let is_free =
        || Command::new("flock").arg("--nonblock").arg(file).arg("true").status().unwrap().success();
    wait_until("the lock is held", || !is_free());
    holder
}

/// An attachment of the rail, and a DEL of it that logs to a file.
fn attached() -> (Rail, Call, PathBuf) {
    let rail = Rail::new();
    let log = rail.node.state_dir().with_file_name("log");
    let call = rail.macvlan(&json!({"logFile": log}));
    call.add().ok();
    assert!(!fs::read_to_string(&log).unwrap_or_default().contains("waited"), "nobody was in the way");
    (rail, call, log)
}

/// The line that tells of the wait for a file.
fn waited(log: &Path, file: &Path) -> String {
    let text = fs::read_to_string(log).unwrap();
    let told = |line: &&str| line.contains("waited for a lock") && line.contains(file.to_str().unwrap());
    text.lines().find(told).unwrap_or_else(|| panic!("no word of {}:\n{text}", file.display())).to_owned()
}

fn store(rail: &Rail) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    rail.node.state_dir().join("ipam").join(boot.trim())
}

#[test]
fn a_wait_for_a_journal_is_logged_with_its_file_and_its_length() {
    let (rail, call, log) = attached();
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    let mut holder = hold(&journal);
    call.del().done();
    let line = waited(&log, &journal);
    assert!(line.contains("level=info") && line.contains("waited=") && line.contains("ms"), "{line}");
    holder.wait().unwrap();
}

#[test]
fn a_wait_for_the_claims_is_logged() {
    let (rail, call, log) = attached();
    let claims = store(&rail).join("claims");
    let mut holder = hold(&claims);
    call.del().done();
    waited(&log, &claims);
    holder.wait().unwrap();
}

#[test]
fn a_wait_for_a_pools_map_is_logged() {
    let (rail, call, log) = attached();
    let map = store(&rail).join("maps/rail");
    let mut holder = hold(&map);
    call.container("other").ifname("net2").add().ok();
    waited(&log, &map);
    holder.wait().unwrap();
}
