//! Several processes that use one store, some of which are killed.
//!
//! A child process runs this test executable with environment variables that make it act as a child.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, OpenOptions},
    io::Write,
    net::IpAddr,
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use identifiers::Attachment;
use ipam::{AddressClaim, ClaimOwner, LocalStore, Pools, ReleaseOutcome, StoreError};
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

/// Returns the state directory and the number of this child process; `None` in an ordinary test run.
fn child_parameters() -> Option<(String, String)> {
    Some((std::env::var(STATE).ok()?, std::env::var(CHILD).ok()?))
}

#[test]
fn child_claims_ten() {
    let Some((state, id)) = child_parameters() else { return };
    let store = LocalStore::open(Path::new(&state), BOOT_ID).unwrap();
    let pools = pools("10.0.0.200");
    for n in 0..10 {
        let owner: Attachment = format!("c{id}-{n}@net1").parse().unwrap();
        store.claim(pools.get("p").unwrap(), &owner, soon(), |_| Ok::<_, StoreError>(())).unwrap();
    }
}

#[test]
fn ipam_case_043_claims_of_parallel_processes_are_distinct() {
    let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let children: Vec<_> = (0..20).map(|id| child("processes::child_claims_ten", state.path(), id)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let claims = LocalStore::open(state.path(), BOOT_ID).unwrap().claims().unwrap();
    assert_eq!(claims.len(), 200);
    let owners: HashSet<_> = claims.iter().map(|claim| claim.owner.to_string()).collect();
    assert_eq!(owners.len(), 200, "every reported claim exists");
}

/// Claims and releases until it is killed, and logs each step: `?` about to claim, `+` claimed, `-` about to release.
#[test]
fn child_churns() {
    let Some((state, id)) = child_parameters() else { return };
    let store = LocalStore::open(Path::new(&state), BOOT_ID).unwrap();
    let pools = pools("10.0.0.24");
    let log_path = Path::new(&state).join(format!("log{id}"));
    let log = OpenOptions::new().append(true).create(true).open(log_path).unwrap();
    let write = |mut log: &fs::File, mark: char, address: IpAddr, owner: &Attachment| {
        log.write_all(format!("{mark} {address} {owner}\n").as_bytes()).unwrap();
    };
    let mut held = VecDeque::new();
    for n in 0.. {
        let owner: Attachment = format!("c{id}-{n}@net1").parse().unwrap();
        let note = |address| {
            thread::sleep(Duration::from_micros(100)); // so that many kills happen here
            write(&log, '?', address, &owner);
            Ok::<_, StoreError>(())
        };
        match store.claim(pools.get("p").unwrap(), &owner, soon(), note) {
            Ok(address) => {
                write(&log, '+', address, &owner);
                held.push_back((address, owner));
            }
            Err(StoreError::Exhausted { .. }) => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
        if held.len() > 3
            && let Some((address, owner)) = held.pop_front()
        {
            write(&log, '-', address, &owner);
            assert_eq!(store.release(Some("p"), address, &owner).unwrap(), ReleaseOutcome::Released);
        }
    }
}

/// An address and an owner.
type HeldAddress = (IpAddr, Attachment);

/// Returns the addresses that a child certainly has, and those that it may have, according to its log.
fn read_log(state: &Path, id: usize) -> (HashSet<HeldAddress>, HashSet<HeldAddress>) {
    let (mut has, mut may_have) = (HashSet::new(), HashSet::new());
    let log = fs::read_to_string(state.join(format!("log{id}"))).unwrap_or_default();
    for line in log.lines() {
        let mut words = line.split(' ');
        let mark = words.next().unwrap();
        let holding = (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
        match mark {
            "+" => drop(has.insert(holding)),
            "-" => drop(has.remove(&holding)),
            _ => drop(may_have.insert(holding)),
        }
    }
    (has, may_have)
}

#[test]
fn ipam_case_046_047_killed_processes_neither_lose_nor_duplicate_an_address() {
    let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut children: Vec<(usize, Child)> =
        (0..4).map(|id| (id, child("processes::child_churns", state.path(), id))).collect();
    for round in 4..60 {
        thread::sleep(Duration::from_millis(8 + (round * 7) as u64 % 23));
        let (id, mut victim) = children.remove(round % children.len());
        assert_eq!(victim.try_wait().unwrap(), None, "child {id} exited");
        victim.kill().unwrap();
        victim.wait().unwrap();
        children.push((round, child("processes::child_churns", state.path(), round)));
        forget_taken_addresses(state.path());
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        clean_up(&store, id, read_log(state.path(), id));
    }
    for (id, mut child) in children {
        child.kill().unwrap();
        child.wait().unwrap();
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        clean_up(&store, id, read_log(state.path(), id));
    }
    every_address_can_be_claimed(&LocalStore::open(state.path(), BOOT_ID).unwrap());
}

/// Clears the bits of the map while the children use it, so that they try addresses of each other.
fn forget_taken_addresses(state: &Path) {
    let map = state.join("ipam").join(BOOT_ID).join("maps/p");
    if let Ok(map) = OpenOptions::new().write(true).open(map) {
        map.write_all_at(&[0; 8], 64 + 32).unwrap(); // after the header and its single interval
    }
}

/// Releases all addresses of a killed child. Those that it certainly had must still be claimed by it.
fn clean_up(store: &LocalStore, id: usize, (has, may_have): (HashSet<HeldAddress>, HashSet<HeldAddress>)) {
    for (address, owner) in has {
        let found = store.owner(address).unwrap();
        assert_eq!(found, Some(ClaimOwner::Attachment(owner)), "{address} was taken from a living child");
    }
    let left = || {
        let ours = |claim: &AddressClaim| claim.owner.to_string().starts_with(&format!("c{id}-"));
        store.claims().unwrap().into_iter().filter(ours).collect::<Vec<_>>()
    };
    for AddressClaim { address, owner } in left() {
        let ClaimOwner::Attachment(owner) = owner else { panic!("{owner} is not an attachment") };
        assert_eq!(store.release(Some("p"), address, &owner).unwrap(), ReleaseOutcome::Released);
        assert!(may_have.contains(&(address, owner)), "{address} was claimed and not logged");
    }
    assert_eq!(left(), []);
}

fn every_address_can_be_claimed(store: &LocalStore) {
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
