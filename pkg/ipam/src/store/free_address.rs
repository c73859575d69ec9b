//! Checks whether pools have a free address, without claiming one.

use std::net::IpAddr;

use crate::{
    LocalStore, MAX_ADDRESSES, NameList, Pool, StoreError,
    store::{exhausted, search::Search},
};

/// The number of stale clear bits of a map after which the claims themselves are read.
const MAX_STALE_BITS: usize = 16;

impl LocalStore {
    /// Checks whether any of these pools of one family has a free address. Writes nothing and does not wait for locks.
    ///
    /// Normally reads a few bytes of a map. The claims are listed only if the maps appear full.
    ///
    /// # Errors
    /// [`StoreError::Exhausted`] for one pool, [`StoreError::AllFull`] for several pools; [`StoreError::Io`].
    pub fn has_room(&self, pools: &[&Pool]) -> Result<(), StoreError> {
        for pool in pools {
            if self.map_shows_room(pool)? {
                return Ok(());
            }
        }
        let taken = if pools.is_empty() { Vec::new() } else { self.claims.addresses()? };
        match pools {
            [] => Ok(()),
            pools if pools.iter().any(|pool| !is_full(pool, &taken)) => Ok(()),
            [pool] => Err(exhausted(pool)),
            [first, ..] => Err(StoreError::AllFull {
                family: first.family(),
                pools: NameList(pools.iter().map(|pool| pool.name.to_string()).collect()),
            }),
        }
    }

    /// Whether the map has a clear bit whose address is free. `false` proves nothing, because a map is only a hint.
    fn map_shows_room(&self, pool: &Pool) -> Result<bool, StoreError> {
        let Some(map) = self.maps.peek(&pool.name, &pool.ranges)? else { return Ok(false) };
        let mut search = Search::new(&map);
        for _ in 0..MAX_STALE_BITS {
            let Some(ordinal) = search.next().map_err(self.map_failed(pool))? else { break };
            if let Some(address) = pool.ranges.nth(ordinal.into())
                && self.claims.owner(address)?.is_none()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_full(pool: &Pool, taken: &[IpAddr]) -> bool {
    let usable = pool.ranges.len().min(MAX_ADDRESSES.into());
    let ours = |address: &&IpAddr| pool.ranges.ordinal(**address).is_some_and(|ordinal| ordinal < usable);
    taken.iter().filter(ours).count() as u128 >= usable
}
