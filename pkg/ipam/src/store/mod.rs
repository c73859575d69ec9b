//! Who has which address on this node.
//!
//! ```text
//! <state>/ipam/<boot id>/claims/<address> -> <container>@<ifname>     the truth, one link per address
//! <state>/ipam/<boot id>/maps/<pool>                                  a hint, one bitmap per pool
//! ```
//! Several processes work here at once and each may be killed at any instruction. Claims are made and removed
//! by single system calls and belong to an address, not to a pool, so two pools that overlap never give one
//! address twice. The maps make the cost of a claim independent of how many there are.
//!
//! After a reboot there is another boot ID and so an empty store: no container outlives its node.

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
mod usage;

use std::{
    fs::File,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use identifiers::Attachment;

pub use claims::{AddressClaim, ClaimOwner, ReleaseOutcome};
pub use error::StoreError;
pub use header::{MAX_ADDRESSES, MapHeader};
pub use usage::PoolUsage;

use crate::{NameList, Pool, PoolName};
use claims::{ClaimAttempt, ClaimDir};
use map::{AddressMap, MapDir, MapFileContent};
use search::Search;

/// How long a release waits for a pool's map. Without it the release still succeeds, only the hint is stale.
const MAP_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The claims of one node since its last boot.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    claims: ClaimDir,
    maps: MapDir,
}

impl LocalStore {
    /// Opens the store below a state directory, making it if need be; only root may look inside.
    ///
    /// `boot_id` is the text of `/proc/sys/kernel/random/boot_id`. Whoever makes the store of a new boot
    /// removes those of earlier ones.
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
            // Stale directories do no harm; the next boot tries again.
            let _ = store.remove_other_boots();
        }
        Ok(store)
    }

    /// Opens the store if there is one. Without it nobody has an address.
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

    /// Removes the stores of earlier boots and says how many there were.
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

    /// The stores below a state directory that belong to other boots than this one.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn other_boots(state: &Path, boot_id: &str) -> Result<Vec<String>, StoreError> {
        directories::siblings(&directories::root(state, directories::checked(boot_id)?))
    }

    /// Removes the store of a boot. Nobody may have it open who could still claim.
    ///
    /// # Errors
    /// [`StoreError::BootId`] and [`StoreError::Io`].
    pub fn remove_boot(state: &Path, boot_id: &str) -> Result<(), StoreError> {
        directories::remove(&directories::root(state, directories::checked(boot_id)?))
    }

    /// Claims a free address of a pool.
    ///
    /// Just before an address is claimed it is told to `note`, whose error ends the attempt with nothing
    /// claimed. `note` may be told several addresses if other processes are faster; only the last one told
    /// is claimed. A pool of more than [`MAX_ADDRESSES`] uses its first ones.
    ///
    /// # Errors
    /// [`StoreError::Exhausted`]; [`StoreError::Busy`] if another process holds the pool's lock until
    /// `deadline`; [`StoreError::Io`]; and whatever `note` returns.
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
            // All bits are set. Some may be so wrongly, but only if claims went since the map was made.
            let stamp = self.claims.stamp()?;
            if fresh || (stamp != 0 && stamp == map.header().stamp) {
                return Err(exhausted(pool).into());
            }
            let taken = self.claims.addresses()?;
            map = map.rewrite(&pool.ranges, stamp, &taken).map_err(self.map_failed(pool))?;
            fresh = true;
        }
    }

    /// Claims a free address of the first of these pools that has one, and says which.
    ///
    /// Only exhaustion leads to the next pool: contention is waited out.
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

    /// Claims a certain address.
    ///
    /// # Errors
    /// [`StoreError::Taken`]; [`StoreError::Busy`] and [`StoreError::Io`].
    pub fn claim_address(&self, address: IpAddr, owner: &Attachment) -> Result<(), StoreError> {
        // The pool's map is a hint: that the address is taken it learns from whoever tries it next.
        match self.claims.take(address, &owner.to_string())? {
            ClaimAttempt::Ours => Ok(()),
            ClaimAttempt::Theirs => {
                let owner =
                    self.claims.owner(address)?.unwrap_or_else(|| ClaimOwner::Unknown("somebody".to_owned()));
                Err(StoreError::Taken { address, owner })
            }
        }
    }

    /// Gives an address back if it is this owner's.
    ///
    /// `pool` is the name of the pool it came from; neither the pool nor its map need exist any more. With
    /// `None` the address is given back all the same and offered again when its pool looks full.
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
        // A map that cannot be had is no reason to keep the address.
        let found = name.and_then(|name| self.maps.find(&name, address, deadline).ok().flatten());
        self.claims.remove(address, &owner.to_string(), || {
            // First the bit, then the claim: a kill in between leaves a clear bit, which heals by itself.
            if let Some((map, ordinal)) = &found {
                let _ = map.clear(*ordinal);
            }
            Ok(true)
        })
    }

    /// Gives an address back if it is this owner's and `may` go, which is asked while no other process can give it back
    /// or take it for its own. It is offered again when its pool looks full.
    ///
    /// # Errors
    /// [`StoreError::Busy`] and [`StoreError::Io`], or what `may` failed with; the address is then still claimed.
    pub fn release_when<E: From<StoreError>>(
        &self,
        address: IpAddr,
        owner: &Attachment,
        may: impl FnOnce() -> Result<bool, E>,
    ) -> Result<ReleaseOutcome, E> {
        self.claims.remove(address, &owner.to_string(), may)
    }

    /// Gives an address of one owner to another, without it being free in between.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] if neither of them has it; [`StoreError::Busy`] and [`StoreError::Io`].
    pub fn reassign(&self, address: IpAddr, from: &Attachment, to: &Attachment) -> Result<(), StoreError> {
        self.claims.replace(address, &from.to_string(), &to.to_string())
    }

    /// Who has an address.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owner(&self, address: IpAddr) -> Result<Option<ClaimOwner>, StoreError> {
        self.claims.owner(address)
    }

    /// The addresses of an owner. Looks at every claim; the journal of an attachment knows faster.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owned_by(&self, owner: &Attachment) -> Result<Vec<IpAddr>, StoreError> {
        let ours =
            |claim: &AddressClaim| matches!(&claim.owner, ClaimOwner::Attachment(other) if other == owner);
        Ok(self.claims.list()?.into_iter().filter(ours).map(|claim| claim.address).collect())
    }

    /// All claims, sorted by address. Those that come or go meanwhile may or may not be among them.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn claims(&self) -> Result<Vec<AddressClaim>, StoreError> {
        let mut claims = self.claims.list()?;
        claims.sort_unstable_by_key(|claim| claim.address);
        Ok(claims)
    }

    /// The directory of the claims, for messages.
    pub fn path(&self) -> &Path {
        self.claims.path()
    }

    /// The pool's map under its lock, and whether it was made just now.
    fn lock_map(&self, pool: &Pool, deadline: Instant) -> Result<(AddressMap, bool), StoreError> {
        loop {
            let file = self.maps.lock(&pool.name, deadline)?;
            match AddressMap::read(file, &pool.ranges).map_err(self.map_failed(pool))? {
                MapFileContent::Map(map) => return Ok((map, false)),
                MapFileContent::Old(file) => return Ok((self.new_map(file, pool)?, true)),
                // Then it is out of the way.
                MapFileContent::Damaged(file) => self.maps.quarantine(&pool.name, &file)?,
            }
        }
    }

    fn new_map(&self, file: File, pool: &Pool) -> Result<AddressMap, StoreError> {
        // The stamp is taken first: what changes during the listing must count as a later change.
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
            // The claim is made or refused; if the hint cannot be written (a full disk), it heals later.
            let _ = search.set(ordinal);
            if attempt == ClaimAttempt::Ours {
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

/// What ends a claim: the store, or the caller's own note.
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
