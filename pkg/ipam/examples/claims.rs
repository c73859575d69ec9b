//! Measures a claim and its release with few and with many claimed addresses, the check for a free address (STATUS), and
//! a scan of all claims, which only a DEL of an attachment without a journal does.
//!
//! `cargo run --release -p ipam --example claims [directory]`; the directory should be on a tmpfs.

#![allow(clippy::print_stdout, reason = "the measurements are printed")]

use std::{
    error::Error,
    net::IpAddr,
    time::{Duration, Instant},
};

use identifiers::Attachment;
use ipam::{LocalStore, Pool, Pools, StoreError};

const BOOT_ID: &str = "00000000-0000-0000-0000-000000000000";
const ROUNDS: usize = 20_000;
const SCANS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let state = tempfile::tempdir_in(directory)?;
    let store = LocalStore::open(state.path(), BOOT_ID)?;
    let config =
        serde_json::json!([{"name": "rail0", "subnet": "10.0.0.0/8", "ips": ["10.0.0.1-10.1.255.254"]}]);
    let pools = Pools::from_inline(&config)?;
    let pool = pools.get("rail0").ok_or("the pool does not exist")?;
    let mut taken = 0;
    let mut medians = Vec::new();
    for wanted in [10, 100_000] {
        while taken < wanted {
            claim(&store, pool, &format!("c{taken}@net1").parse()?)?;
            taken += 1;
        }
        let (claim, release) = measure(&store, pool)?;
        println!("{taken:>7} claimed: claim {claim:.2?}, release {release:.2?}");
        println!(
            "{:>7}          check for a free address {:.2?}, scan of all claims {:.2?}",
            "",
            room(&store, pool)?,
            scan(&store)?
        );
        medians.push((claim + release).as_secs_f64());
    }
    if let [few, many] = medians[..] {
        println!("ratio of claim + release: {:.2}", many / few);
    }
    Ok(())
}

fn claim(store: &LocalStore, pool: &Pool, owner: &Attachment) -> Result<IpAddr, StoreError> {
    store.claim(pool, owner, Instant::now() + Duration::from_secs(1), |_| Ok(()))
}

/// Returns the median time of a check for a free address.
fn room(store: &LocalStore, pool: &Pool) -> Result<Duration, StoreError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        store.has_room(&[pool])?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}

/// Returns the median time of a scan of all claims.
fn scan(store: &LocalStore) -> Result<Duration, Box<dyn Error>> {
    let owner = "unknown@net1".parse()?;
    let mut times = Vec::new();
    for _ in 0..SCANS {
        let began = Instant::now();
        store.owned_by(&owner)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[SCANS / 2])
}

/// Returns the median times of a claim and of a release.
fn measure(store: &LocalStore, pool: &Pool) -> Result<(Duration, Duration), Box<dyn Error>> {
    let owner: Attachment =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef@net1".parse()?;
    let (mut claims, mut releases) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let address = claim(store, pool, &owner)?;
        claims.push(began.elapsed());
        let began = Instant::now();
        store.release(Some("rail0"), address, &owner)?;
        releases.push(began.elapsed());
    }
    claims.sort_unstable();
    releases.sort_unstable();
    Ok((claims[ROUNDS / 2], releases[ROUNDS / 2]))
}
