//! File systems that are full or read-only.
//!
//! Each test runs this executable again in a new mount namespace, and fails if it cannot create one.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use identifiers::Attachment;
use ipam::{LocalStore, Pools, ReleaseOutcome, StoreError};
use serde_json::json;

const BOOT_ID: &str = "6f1d9a3e-5c1b-4f0e-9a53-0123456789ab";
const STATE: &str = "IPAM_TEST_STATE";

/// Runs a shell script in a new mount namespace; `$0` is this executable and `$IPAM_TEST_STATE` a directory.
fn run(script: &str) {
    let state = tempfile::tempdir().unwrap();
    // Root needs no user namespace, which may be disabled.
    let kinds = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let mut command = Command::new("unshare");
    command.args([kinds, "sh", "-ec", script]).arg(std::env::current_exe().unwrap()).env(STATE, state.path());
    let output = command.output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "unshare {kinds}: {stdout}{stderr}");
    assert!(!stdout.contains("running 0 tests"), "no test has this name: {script}");
}

/// Returns the state directory in a child process; `None` in an ordinary test run.
fn state() -> Option<PathBuf> {
    std::env::var_os(STATE).map(PathBuf::from)
}

fn open(state: &Path) -> LocalStore {
    LocalStore::open(state, BOOT_ID).unwrap()
}

fn claim(store: &LocalStore, pool: &str, owner: &str) -> Result<std::net::IpAddr, StoreError> {
    let config = json!([
        {"name": "small", "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.50"]},
        {"name": "other", "subnet": "10.0.1.0/24", "ips": ["10.0.1.1"]}
    ]);
    let pools = Pools::from_inline(&config).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    store.claim(pools.get(pool).unwrap(), &owner.parse::<Attachment>().unwrap(), deadline, |_| Ok(()))
}

fn assert_kind<T: std::fmt::Debug>(outcome: Result<T, StoreError>, kind: ErrorKind, advice: &str) {
    let Err(error @ StoreError::Io { .. }) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains(advice), "{error}");
    let StoreError::Io { source, .. } = error else { return };
    assert_eq!(source.kind(), kind);
}

#[test]
fn ipam_case_051_a_claim_on_a_full_disk_fails_and_works_when_there_is_space() {
    // Ten inodes: the root, four directories and the map, which leaves four for claims.
    run(
        "mount -t tmpfs -o nr_inodes=10,size=64k tmpfs $IPAM_TEST_STATE; $0 filesystems::child_runs_out_of_inodes --exact",
    );
    run("mount -t tmpfs -o size=16k tmpfs $IPAM_TEST_STATE; $0 filesystems::child_runs_out_of_space --exact");
}

#[test]
fn child_runs_out_of_inodes() {
    let Some(state) = state() else { return };
    let store = open(&state);
    for n in 0..4 {
        claim(&store, "small", &format!("c{n}@net1")).unwrap();
    }
    assert_kind(claim(&store, "small", "x@net1"), ErrorKind::StorageFull, "free space");
    assert_eq!(store.claims().unwrap().len(), 4);
    let first = store.claims().unwrap()[0].address;
    let released = store.release(Some("small"), first, &"c0@net1".parse().unwrap());
    assert_eq!(released.unwrap(), ReleaseOutcome::Released, "an address can be released on a full disk");
    claim(&store, "small", "x@net1").unwrap();
}

#[test]
fn child_runs_out_of_space() {
    let Some(state) = state() else { return };
    let store = open(&state);
    claim(&store, "small", "a@net1").unwrap();
    let ballast = state.join("ballast");
    assert!(fs::write(&ballast, vec![1; 1 << 20]).is_err());
    claim(&store, "small", "b@net1").unwrap(); // its map has a page already
    assert_kind(claim(&store, "other", "a@net1"), ErrorKind::StorageFull, "free space");
    assert_eq!(store.claims().unwrap().len(), 2);
    fs::remove_file(ballast).unwrap();
    claim(&store, "other", "a@net1").unwrap();
}

#[test]
fn ipam_case_052_a_read_only_store_is_a_clear_error() {
    run("mount -t tmpfs tmpfs $IPAM_TEST_STATE; $0 filesystems::child_claims_one --exact
         mount -o remount,ro $IPAM_TEST_STATE; $0 filesystems::child_fails_on_a_read_only_store --exact");
}

#[test]
fn child_claims_one() {
    let Some(state) = state() else { return };
    claim(&open(&state), "small", "a@net1").unwrap();
}

#[test]
fn child_fails_on_a_read_only_store() {
    let Some(state) = state() else { return };
    let store = open(&state);
    assert_kind(claim(&store, "small", "b@net1"), ErrorKind::ReadOnlyFilesystem, "stateDir");
    let address = store.claims().unwrap()[0].address;
    let released = store.release(Some("small"), address, &"a@net1".parse().unwrap());
    assert_kind(released, ErrorKind::ReadOnlyFilesystem, "stateDir");
    assert_eq!(store.claims().unwrap().len(), 1);
    let next_boot = BOOT_ID.replace('6', "7");
    assert_kind(LocalStore::open(&state, &next_boot), ErrorKind::ReadOnlyFilesystem, "stateDir");
}
