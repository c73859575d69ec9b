//! Several processes at one store, some of which are killed.
//!
//! A child is this test executable again, told by an environment variable what to be.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::{
    collections::{HashMap, HashSet},
    fs::{self, OpenOptions},
    io::Write,
    net::IpAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use addr::Attachment;
use ipam::{LocalStore, Owner, Pools, Release, StoreError};
use serde_json::json;

const BOOT_ID: &str = "6f1d9a3e-5c1b-4f0e-9a53-0123456789ab";
const STATE: &str = "IPAM_TEST_STATE";
const CHILD: &str = "IPAM_TEST_CHILD";

fn pools(last: &str) -> Pools {
    let ips = format!("10.0.0.1-{last}");
    Pools::from_inline(&json!([{"name": "p", "subnet": "10.0.0.0/16", "ips": [ips]}])).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn child(test: &str, state: &Path, id: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--quiet"]).env(STATE, state).env(CHILD, id.to_string());
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// The state directory and the number of this child; `None` in an ordinary test run.
fn told() -> Option<(String, String)> {
    Some((std::env::var(STATE).ok()?, std::env::var(CHILD).ok()?))
}

#[test]
fn child_claims_ten() {
    let Some((state, id)) = told() else { return };
    let store = LocalStore::open(Path::new(&state), BOOT_ID).unwrap();
    let pools = pools("10.0.0.200");
    for n in 0..10 {
        let owner: Attachment = format!("c{id}-{n}@net1").parse().unwrap();
        store.claim(pools.get("p").unwrap(), &owner, soon(), |_| Ok::<_, StoreError>(())).unwrap();
    }
}

#[test]
fn case_043_processes_share_out_a_pool() {
    let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let children: Vec<_> = (0..20).map(|id| child("child_claims_ten", state.path(), id)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let claims = LocalStore::open(state.path(), BOOT_ID).unwrap().claims().unwrap();
    assert_eq!(claims.len(), 200);
    let owners: HashSet<_> = claims.iter().map(|claim| claim.owner.to_string()).collect();
    assert_eq!(owners.len(), 200, "every claim that was reported is there");
}

/// Claims and releases until it is killed, and writes down what it does: `?` noted, `+` has, `-` gives back.
#[test]
fn child_churns() {
    let Some((state, id)) = told() else { return };
    let store = LocalStore::open(Path::new(&state), BOOT_ID).unwrap();
    let pools = pools("10.0.0.24");
    let log_path = Path::new(&state).join(format!("log{id}"));
    let mut log = OpenOptions::new().append(true).create(true).open(log_path).unwrap();
    let write = |mut log: &fs::File, mark: char, address: IpAddr| writeln!(log, "{mark}{address}");
    let owner: Attachment = format!("c{id}@net1").parse().unwrap();
    let mut held = Vec::new();
    loop {
        if held.len() < 6 {
            let note = |address| {
                write(&log, '?', address).unwrap();
                Ok::<_, StoreError>(())
            };
            match store.claim(pools.get("p").unwrap(), &owner, soon(), note) {
                Ok(address) => {
                    write(&log, '+', address).unwrap();
                    held.push(address);
                    continue;
                }
                Err(StoreError::Exhausted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let address = if held.is_empty() { continue } else { held.remove(0) };
        write(&log, '-', address).unwrap();
        assert_eq!(store.release(Some("p"), address, &owner).unwrap(), Release::Released);
        log.flush().unwrap();
    }
}

/// What a child surely has, and what it may have, by its own account.
fn account(state: &Path, id: usize) -> (HashSet<IpAddr>, HashSet<IpAddr>) {
    let (mut has, mut may_have) = (HashSet::new(), HashSet::new());
    let log = fs::read_to_string(state.join(format!("log{id}"))).unwrap_or_default();
    for line in log.lines() {
        // A kill may cut the last line short.
        let Some(address) = line.get(1..).and_then(|text| text.parse::<IpAddr>().ok()) else { continue };
        may_have.insert(address);
        match line.as_bytes()[0] {
            b'+' => drop(has.insert(address)),
            b'-' => drop(has.remove(&address)),
            _ => {}
        }
    }
    (has, may_have)
}

#[test]
fn case_046_047_killed_processes_neither_lose_nor_double_an_address() {
    let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut children: Vec<(usize, Child)> =
        (0..4).map(|id| (id, child("child_churns", state.path(), id))).collect();
    let mut accounts = HashMap::new();
    for round in 4..60 {
        thread::sleep(Duration::from_millis(8 + (round * 7) as u64 % 23));
        let (id, mut victim) = children.remove(round % children.len());
        assert_eq!(victim.try_wait().unwrap(), None, "child {id} ended by itself");
        victim.kill().unwrap();
        victim.wait().unwrap();
        accounts.insert(id, account(state.path(), id));
        children.push((round, child("child_churns", state.path(), round)));
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        clean_up(&store, id, &accounts[&id]);
    }
    for (id, mut child) in children {
        child.kill().unwrap();
        child.wait().unwrap();
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        clean_up(&store, id, &account(state.path(), id));
    }
    every_address_can_be_had(&LocalStore::open(state.path(), BOOT_ID).unwrap());
}

/// Does a DEL's work for a dead child. What it surely had must still be its own.
fn clean_up(store: &LocalStore, id: usize, (has, may_have): &(HashSet<IpAddr>, HashSet<IpAddr>)) {
    let owner: Attachment = format!("c{id}@net1").parse().unwrap();
    for address in has {
        let found = store.owner(*address).unwrap();
        assert_eq!(found, Some(Owner::Attachment(owner.clone())), "{address} was taken from a living child");
    }
    for address in store.owned_by(&owner).unwrap() {
        assert!(may_have.contains(&address), "{address} was claimed and not noted");
    }
    for address in may_have {
        store.release(Some("p"), *address, &owner).unwrap();
    }
    assert_eq!(store.owned_by(&owner).unwrap(), [] as [IpAddr; 0]);
}

fn every_address_can_be_had(store: &LocalStore) {
    assert_eq!(store.claims().unwrap(), []);
    let pools = pools("10.0.0.24");
    let mut given = HashSet::new();
    for n in 0..24 {
        let owner: Attachment = format!("after{n}@net1").parse().unwrap();
        let claimed = store.claim(pools.get("p").unwrap(), &owner, soon(), |_| Ok::<_, StoreError>(()));
        given.insert(claimed.unwrap());
    }
    assert_eq!(given.len(), 24);
}
