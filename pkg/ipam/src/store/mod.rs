//! The store of address claims of a node.
//!
//! ```text
//! <state>/ipam/<boot id>/claims/<address> -> <container>@<ifname>     authoritative, one link per address
//! <state>/ipam/<boot id>/maps/<pool>                                  a hint, one bitmap per pool
//! <state>/ipam/<boot id>/blocks/<block>                               only with pools of a cluster: the node's blocks
//! ```
//! Several processes use the store at the same time, and each may be killed at any instruction. A claim is created
//! and removed by a single system call. It belongs to an address, not to a pool, so overlapping pools never allocate
//! an address twice. With the maps, the cost of a claim does not depend on the number of claims.
//!
//! After a reboot the boot ID differs, so that the store is empty: containers do not survive a reboot.

mod blocks;
mod claim_owner;
mod claims;
mod directories;
mod error;
mod free_address;
mod header;
mod kill_point;
mod lock;
mod map;
mod search;
#[cfg(test)]
mod tests;
pub(crate) mod usage;

use std::{
    fs::File,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use identifiers::Attachment;

pub use claim_owner::ClaimOwner;
pub use claims::{AddressClaim, ReleaseOutcome};
pub use error::StoreError;
pub use header::{MAX_ADDRESSES, MapHeader};

use crate::{NameList, Pool, PoolName};
use claims::{ClaimAttempt, ClaimDir};
use map::{AddressMap, MapDir, MapFileContent};
use search::Search;

/// The timeout of a release for the lock of a pool's map. Without the map, the release succeeds and the hint is stale.
const MAP_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The claims of one node since its last boot.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    claims: ClaimDir,
    maps: MapDir,
}

impl LocalStore {
    /// Opens the store below a state directory, and creates it with mode 0700 if it does not exist.
    ///
    /// `boot_id` is the content of `/proc/sys/kernel/random/boot_id`. The process that creates the store of a new
    /// boot removes those of earlier boots.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn open(state: &Path, boot_id: &str) -> Result<Self, StoreError> {
        if let Some(store) = Self::open_existing(state, boot_id)? {
            return Ok(store);
        }
        let made = directories::make(state, boot_id)?;
        let store = Self::open_existing(state, boot_id)?.ok_or_else(|| {
            let vanished = io::Error::from(io::ErrorKind::NotFound);
            StoreError::io("open", directories::root(state, boot_id))(vanished)
        })?;
        if made {
            // Stale directories are harmless; the next boot tries again.
            let _ = store.remove_other_boots();
        }
        Ok(store)
    }

    /// Opens the store; `None` if it does not exist, so that no address is claimed.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn open_existing(state: &Path, boot_id: &str) -> Result<Option<Self>, StoreError> {
        let boot_id = directories::checked(boot_id)?;
        let root = directories::root(state, boot_id);
        let open = |name| directories::open(&root.join(name));
        let (Some(claims), Some(maps)) = (open("claims")?, open("maps")?) else { return Ok(None) };
        let claims = ClaimDir::new(claims, root.join("claims"));
        Ok(Some(Self { claims, maps: MapDir { directory: maps, path: root.join("maps") }, root }))
    }

    /// Removes the stores of all other boots and returns their number.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove_other_boots(&self) -> Result<usize, StoreError> {
        let others = directories::siblings(&self.root)?;
        for boot_id in &others {
            directories::remove(&self.root.with_file_name(boot_id))?;
        }
        Ok(others.len())
    }

    /// Returns the boot IDs of the stores below a state directory, except `boot_id`.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn other_boots(state: &Path, boot_id: &str) -> Result<Vec<String>, StoreError> {
        directories::siblings(&directories::root(state, directories::checked(boot_id)?))
    }

    /// Removes the store of a boot. No process must have it open that may still claim addresses.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn remove_boot(state: &Path, boot_id: &str) -> Result<(), StoreError> {
        directories::remove(&directories::root(state, directories::checked(boot_id)?))
    }

    /// Claims a free address of a pool.
    ///
    /// Calls `note` with each address before it tries to claim it; an error of `note` is returned and nothing is
    /// claimed. If other processes claim addresses at the same time, `note` is called several times; only the last
    /// address is claimed. Of a pool with more than [`MAX_ADDRESSES`], the first ones are used.
    ///
    /// # Errors
    /// [`StoreError::Exhausted`]; [`StoreError::Busy`] if another process holds the pool's lock until
    /// `deadline`; [`StoreError::Io`]; and the errors of `note`.
    pub fn claim<E: From<StoreError>>(
        &self,
        pool: &Pool,
        owner: &Attachment,
        deadline: Instant,
        mut note: impl FnMut(IpAddr) -> Result<(), E>,
    ) -> Result<IpAddr, E> {
        if pool.ranges.is_empty() {
            return Err(exhausted(pool).into());
        }
        let owner = owner.to_string();
        let (mut map, mut fresh) = self.lock_map(pool, deadline)?;
        loop {
            if let Some(address) = self.try_clear_bits(&mut map, pool, &owner, &mut note)? {
                return Ok(address);
            }
            // All bits are set. Some may be stale, but only if claims were released since the map was written.
            let stamp = self.claims.stamp()?;
            if fresh || (stamp != 0 && stamp == map.header().stamp) {
                return Err(exhausted(pool).into());
            }
            let taken = self.claims.addresses()?;
            map = map.rewrite(&pool.ranges, stamp, &taken).map_err(self.map_failed(pool))?;
            fresh = true;
        }
    }

    /// Claims a free address of the first of these pools that has one, and returns that pool.
    ///
    /// The next pool is tried only if a pool is exhausted, not if its lock is busy.
    ///
    /// # Errors
    /// As [`LocalStore::claim`], with [`StoreError::AllExhausted`] for several pools.
    pub fn claim_first<'p, E: From<StoreError>>(
        &self,
        pools: &[&'p Pool],
        owner: &Attachment,
        deadline: Instant,
        mut note: impl FnMut(&PoolName, IpAddr) -> Result<(), E>,
    ) -> Result<(&'p Pool, IpAddr), E> {
        for pool in pools {
            let note = |address| note(&pool.name, address).map_err(ClaimError::Note);
            match self.claim(pool, owner, deadline, note) {
                Ok(address) => return Ok((pool, address)),
                Err(ClaimError::Store(StoreError::Exhausted { .. })) if pools.len() > 1 => {}
                Err(ClaimError::Store(error)) => return Err(error.into()),
                Err(ClaimError::Note(error)) => return Err(error),
            }
        }
        let family = pools.first().map_or(crate::IpFamily::V4, |pool| pool.family());
        let pools = NameList(pools.iter().map(|pool| pool.name.to_string()).collect());
        Err(StoreError::AllExhausted { family, ifname: owner.ifname.to_string(), pools }.into())
    }

    /// Claims a specific address.
    ///
    /// # Errors
    /// [`StoreError::Taken`] if another attachment has it; [`StoreError::NoBlock`] if it is in no block of the node;
    /// [`StoreError::Busy`] and [`StoreError::Io`].
    pub fn claim_address(&self, pool: &Pool, address: IpAddr, owner: &Attachment) -> Result<(), StoreError> {
        // The pool's map is not updated: it is a hint, and the next attempt to claim the address sets its bit.
        match self.claims.take(address, &owner.to_string())? {
            ClaimAttempt::Ours if self.confirm(pool, address, &owner.to_string())? => Ok(()),
            ClaimAttempt::Ours => Err(StoreError::NoBlock { address, pool: pool.name.clone() }),
            ClaimAttempt::Theirs => {
                let owner = self
                    .claims
                    .owner(address)?
                    .unwrap_or_else(|| ClaimOwner::Unknown("another process".to_owned()));
                Err(StoreError::Taken { address, owner })
            }
        }
    }

    /// Releases an address if `owner` has claimed it.
    ///
    /// `pool` is the name of the pool that it was allocated from; neither the pool nor its map need exist any more.
    /// With `None` the map is not updated, and the address is allocated again only when the pool appears full.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Io`]; the address is then still claimed.
    pub fn release(
        &self,
        pool: Option<&str>,
        address: IpAddr,
        owner: &Attachment,
    ) -> Result<ReleaseOutcome, StoreError> {
        let deadline = Instant::now() + MAP_LOCK_TIMEOUT;
        let name: Option<PoolName> = pool.and_then(|name| name.parse().ok());
        // Release the address even if the map cannot be read or locked.
        let found = name.and_then(|name| self.maps.find(&name, address, deadline).ok().flatten());
        self.claims.remove(address, &owner.to_string(), || {
            // First the bit, then the claim: a kill in between leaves a stale clear bit, which the next claim corrects.
            if let Some((map, ordinal)) = &found {
                let _ = map.clear(*ordinal);
            }
            Ok(true)
        })
    }

    /// Releases an address if `owner` has claimed it and `condition`, which is evaluated under the lock, returns `true`. The
    /// address is allocated again only when its pool appears full.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Io`], or the error of `condition`; the address is then still claimed.
    pub fn release_when<E: From<StoreError>>(
        &self,
        address: IpAddr,
        owner: &Attachment,
        condition: impl FnOnce() -> Result<bool, E>,
    ) -> Result<ReleaseOutcome, E> {
        self.claims.remove(address, &owner.to_string(), condition)
    }

    /// Releases an address if it has this owner, which need not be an attachment, and `condition`, which is evaluated under the lock,
    /// returns `true`.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Io`], or the error of `condition`; the address is then still claimed.
    pub fn release_claim<E: From<StoreError>>(
        &self,
        address: IpAddr,
        owner: &ClaimOwner,
        condition: impl FnOnce() -> Result<bool, E>,
    ) -> Result<ReleaseOutcome, E> {
        let text = match owner {
            ClaimOwner::Attachment(attachment) => attachment.to_string(),
            ClaimOwner::Unknown(text) => text.clone(),
        };
        self.claims.remove(address, &text, condition)
    }

    /// Reassigns a claim to another owner atomically. Succeeds if `to` is the owner already.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] if neither of them is the owner; [`StoreError::Busy`] and [`StoreError::Io`].
    pub fn reassign(&self, address: IpAddr, from: &Attachment, to: &Attachment) -> Result<(), StoreError> {
        self.claims.replace(address, &from.to_string(), &to.to_string())
    }

    /// Returns the owner of an address; `None` if it is free.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owner(&self, address: IpAddr) -> Result<Option<ClaimOwner>, StoreError> {
        self.claims.owner(address)
    }

    /// Returns the addresses of an owner. Reads every claim, so the cost grows with their number.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owned_by(&self, owner: &Attachment) -> Result<Vec<IpAddr>, StoreError> {
        let ours =
            |claim: &AddressClaim| matches!(&claim.owner, ClaimOwner::Attachment(other) if other == owner);
        Ok(self.claims.list()?.into_iter().filter(ours).map(|claim| claim.address).collect())
    }

    /// Returns all claims, sorted by address. Claims that change during the call may or may not be included.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn claims(&self) -> Result<Vec<AddressClaim>, StoreError> {
        let mut claims = self.claims.list()?;
        claims.sort_unstable_by_key(|claim| claim.address);
        Ok(claims)
    }

    /// Returns the path of the directory of claims, for messages.
    pub fn path(&self) -> &Path {
        self.claims.path()
    }

    /// Locks and reads a pool's map. Returns it, and whether it was written from the claims just now.
    fn lock_map(&self, pool: &Pool, deadline: Instant) -> Result<(AddressMap, bool), StoreError> {
        loop {
            let file = self.maps.lock(&pool.name, deadline)?;
            match AddressMap::read(file, &pool.ranges).map_err(self.map_failed(pool))? {
                MapFileContent::Map(map) => return Ok((map, false)),
                MapFileContent::Old(file) => return Ok((self.new_map(file, pool)?, true)),
                // Try again without the damaged file.
                MapFileContent::Damaged(file) => self.maps.quarantine(&pool.name, &file)?,
            }
        }
    }

    fn new_map(&self, file: File, pool: &Pool) -> Result<AddressMap, StoreError> {
        // Read the stamp before the list, so that a change during the listing counts as later.
        let stamp = self.claims.stamp()?;
        let taken = self.claims.addresses()?;
        AddressMap::write(file, &pool.ranges, 0, stamp, &taken).map_err(self.map_failed(pool))
    }

    /// Tries the addresses whose bits are clear until one is claimed.
    fn try_clear_bits<E: From<StoreError>>(
        &self,
        map: &mut AddressMap,
        pool: &Pool,
        owner: &str,
        note: &mut impl FnMut(IpAddr) -> Result<(), E>,
    ) -> Result<Option<IpAddr>, E> {
        let mut search = Search::new(map);
        while let Some(ordinal) = search.next().map_err(self.map_failed(pool))? {
            let Some(address) = pool.ranges.nth(ordinal.into()) else { continue };
            note(address)?;
            let attempt = self.claims.take(address, owner)?;
            // The address is claimed now, by this or another owner. If the bit cannot be written (a full disk), it stays stale.
            let _ = search.set(ordinal);
            if attempt == ClaimAttempt::Ours && self.confirm(pool, address, owner)? {
                let _ = map.set_rotor(ordinal);
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    fn map_failed(&self, pool: &Pool) -> impl FnOnce(io::Error) -> StoreError + use<> {
        StoreError::io("use map", self.maps.path.join(pool.name.as_str()))
    }
}

/// The error of a claim: of the store or of `note`.
enum ClaimError<E> {
    Store(StoreError),
    Note(E),
}

impl<E> From<StoreError> for ClaimError<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn exhausted(pool: &Pool) -> StoreError {
    StoreError::Exhausted { pool: pool.name.clone(), addresses: pool.ranges.len().min(MAX_ADDRESSES.into()) }
}
