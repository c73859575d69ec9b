//! Waits for locks are logged.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use serde_json::json;
use testkit::{Answer, Call, Observe, wait_until};

use silkrail_tests::{rail::RailNode, reboot::store};

/// How long the lock stays held while the call waits for it.
const HELD: Duration = Duration::from_secs(1);

/// Makes a call while a file's lock is held, and releases the lock after the call has waited.
fn with_lock_held(file: &Path, call: impl FnOnce() -> Answer + Send) -> Answer {
    with_lock_held_until(|| is_open_elsewhere(file), file, call)
}

/// As [`with_lock_held`], for a call that waits for the lock from a certain moment.
fn with_lock_held_until(
    waits: impl Fn() -> bool,
    file: &Path,
    call: impl FnOnce() -> Answer + Send,
) -> Answer {
    let lock = File::open(file).unwrap();
    lock.lock().unwrap();
    thread::scope(|scope| {
        let call = scope.spawn(call);
        wait_until("the call waits for the lock", waits);
        thread::sleep(HELD);
        lock.unlock().unwrap();
        call.join().unwrap()
    })
}

/// Whether another process has a file open.
pub(crate) fn is_open_elsewhere(file: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let others = processes.filter(|entry| entry.file_name() != process::id().to_string().as_str());
    let files = others.filter_map(|entry| fs::read_dir(entry.path().join("fd")).ok()).flatten().flatten();
    files.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|open| open == file))
}

/// An attachment of the rail, and a DEL of it that logs to a file.
fn attached() -> (RailNode, Call, PathBuf) {
    let rail = RailNode::new();
    let log = rail.node.log_file("log");
    let call = rail.macvlan(&json!({"logFile": log}));
    call.add().ok();
    assert!(!fs::read_to_string(&log).unwrap_or_default().contains("waited"), "no other process held a lock");
    (rail, call, log)
}

/// The log line about the wait for a file.
fn waited(log: &Path, file: &Path) -> String {
    let text = fs::read_to_string(log).unwrap();
    let is_it = |line: &&str| line.contains("waited for a lock") && line.contains(file.to_str().unwrap());
    text.lines()
        .find(is_it)
        .unwrap_or_else(|| panic!("no line contains {}:\n{text}", file.display()))
        .to_owned()
}

#[test]
fn a_wait_for_a_journal_is_logged_with_its_file_and_its_length() {
    let (rail, call, log) = attached();
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    with_lock_held(&journal, || call.del()).done();
    let line = waited(&log, &journal);
    let length = line.split_whitespace().find_map(|word| word.strip_prefix("waited="));
    assert!(
        line.contains("level=info") && length.is_some_and(|length| length.trim_matches('"').ends_with('s')),
        "{line}"
    );
}

#[test]
fn a_wait_for_the_claims_is_logged() {
    let (rail, call, log) = attached();
    let claims = store(&rail.node).join("claims");
    // DEL opens the directory before it deletes the link, and locks it afterwards.
    let is_deleted = || rail.pod.link("net1").is_none();
    with_lock_held_until(is_deleted, &claims, || call.del()).done();
    waited(&log, &claims);
}

#[test]
fn a_wait_for_a_pools_map_is_logged() {
    let (rail, call, log) = attached();
    let map = store(&rail.node).join("maps/rail");
    with_lock_held(&map, || call.container("other").ifname("net2").add()).ok();
    waited(&log, &map);
}
