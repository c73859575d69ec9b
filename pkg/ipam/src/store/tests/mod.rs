//! Tests of the store, and their fixture.

mod blocks;
mod claims;
mod cost;
mod damage;
mod model;
mod room;

use std::{
    fs,
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use identifiers::Attachment;
use serde_json::json;
use tempfile::TempDir;

use crate::{LocalStore, Pool, Pools, StoreError};

pub(crate) const BOOT_ID: &str = "6f1d9a3e-5c1b-4f0e-9a53-0123456789ab";

/// A store in a temporary directory.
pub(crate) struct StoreFixture {
    pub(crate) state: TempDir,
    pub(crate) store: LocalStore,
}

impl StoreFixture {
    pub(crate) fn new() -> Self {
        // On a tmpfs, as in production. On other file systems the tests take ten times as long.
        let state = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = LocalStore::open(state.path(), BOOT_ID).unwrap();
        Self { state, store }
    }

    pub(crate) fn claim(&self, pool: &Pool, owner: &str) -> Result<IpAddr, StoreError> {
        self.store.claim(pool, &attachment(owner), soon(), |_| Ok(()))
    }

    /// Claims all free addresses of the pool, each for another owner.
    pub(crate) fn fill(&self, pool: &Pool, owner: &str) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        loop {
            match self.claim(pool, &format!("{owner}{}@net1", addresses.len())) {
                Ok(address) => addresses.push(address),
                Err(StoreError::Exhausted { .. }) => return addresses,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn release(&self, pool: &Pool, address: IpAddr, owner: &str) {
        let released = self.store.release(Some(pool.name.as_str()), address, &attachment(owner)).unwrap();
        assert_eq!(released, crate::ReleaseOutcome::Released);
    }

    pub(crate) fn map_path(&self, pool: &Pool) -> PathBuf {
        self.store.maps.path.join(pool.name.as_str())
    }

    pub(crate) fn link(&self, address: &str) -> PathBuf {
        self.store.path().join(address)
    }

    /// Changes the stamp of the claims, as any claim or release does.
    pub(crate) fn touch_claims(&self) {
        std::os::unix::fs::symlink("x", self.link(".touch")).unwrap();
        fs::remove_file(self.link(".touch")).unwrap();
    }
}

pub(crate) fn pool(name: &str, ips: &[&str]) -> Pool {
    let subnet = if ips[0].contains(':') { "fd00::/16" } else { "10.0.0.0/8" };
    let pools = Pools::from_inline(&json!([{"name": name, "subnet": subnet, "ips": ips}])).unwrap();
    pools.get(name).unwrap().clone()
}

pub(crate) fn attachment(text: &str) -> Attachment {
    text.parse().unwrap()
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
