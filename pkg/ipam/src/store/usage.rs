//! The usage of the pools from which this node has allocated addresses.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};

use crate::{IpFamily, IpRanges, LocalStore, PoolName, StoreError, store::header::MapHeader};

/// The usage of a pool on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUsage {
    /// The name of the pool.
    pub pool: PoolName,
    /// The family of its addresses.
    pub family: IpFamily,
    /// The number of its allocatable addresses.
    pub addresses: u64,
    /// The number of them that are claimed, by any owner.
    pub claimed: u64,
}

impl LocalStore {
    /// Returns the usage of each pool that an ADD has used, with the ranges that it had at that time. Writes nothing and does
    /// not wait for locks. The cost grows with the number of claims.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn usage(&self) -> Result<Vec<PoolUsage>, StoreError> {
        let taken = self.claims.addresses()?;
        let mut found = Vec::new();
        for (pool, ranges, bits) in self.maps_of_pools()? {
            let ours = |ordinal: Option<u128>| ordinal.is_some_and(|ordinal| ordinal < bits.into());
            let claimed = taken.iter().filter(|address| ours(ranges.ordinal(**address))).count() as u64;
            found.push(PoolUsage { pool, family: ranges.family(), addresses: bits.into(), claimed });
        }
        found.sort_unstable_by(|a, b| a.pool.cmp(&b.pool));
        Ok(found)
    }

    /// Returns a number that changes whenever a claim is added or removed; 0 must not be compared.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn stamp(&self) -> Result<u64, StoreError> {
        self.claims.stamp()
    }

    /// Returns the pools that have a map, with their ranges and the number of addresses of the map.
    fn maps_of_pools(&self) -> Result<Vec<(PoolName, IpRanges, u32)>, StoreError> {
        let failed = || StoreError::io("list", &self.maps.path);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::openat(&self.maps.directory, ".", flags, Mode::empty()).map_err(failed())?;
        let mut found = Vec::new();
        for entry in dir.iter() {
            let entry = entry.map_err(failed())?;
            let Some(pool) = entry.file_name().to_str().ok().and_then(|name| name.parse::<PoolName>().ok())
            else {
                continue;
            };
            if let Some((ranges, bits)) = read(&self.maps.directory, &pool)
                .map_err(StoreError::io("read map", self.maps.path.join(pool.as_str())))?
            {
                found.push((pool, ranges, bits));
            }
        }
        Ok(found)
    }
}

/// Reads the header and the ranges of a map; `None` if it is not a valid map or was removed meanwhile.
fn read(directory: impl AsFd, pool: &PoolName) -> io::Result<Option<(IpRanges, u32)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file: File = match openat(directory, pool.as_str(), flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(Errno::ENOENT | Errno::ELOOP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut bytes = [0; MapHeader::LEN];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(None);
    }
    let Some(header) = MapHeader::from_bytes(&bytes) else { return Ok(None) };
    if file.metadata()?.len() < header.file_len() {
        return Ok(None);
    }
    let mut table = vec![0; usize::try_from(header.table_len()).unwrap_or(0)];
    file.read_exact_at(&mut table, MapHeader::LEN as u64)?;
    Ok(header.ranges(&table).map(|ranges| (ranges, header.bits)))
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use serde_json::json;

    use super::*;
    use crate::Pools;

    #[test]
    fn the_usage_of_each_pool_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), "00000000-0000-0000-0000-000000000000").unwrap();
        assert_eq!(store.usage().unwrap(), []);
        let pools = Pools::from_inline(&json!([
            {"name": "six", "subnet": "fd00::/64", "ips": ["fd00::1-fd00::ffff:ffff"]},
            {"name": "four", "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.2", "10.0.0.9"]},
        ]))
        .unwrap();
        for (name, id) in [("four", "a@n"), ("four", "b@n"), ("six", "a@n")] {
            let (pool, owner) = (pools.get(name).unwrap(), id.parse().unwrap());
            store.claim::<StoreError>(pool, &owner, Instant::now(), |_| Ok(())).unwrap();
        }
        fs::write(dir.path().join("ipam/00000000-0000-0000-0000-000000000000/maps/bad"), "no map").unwrap();
        let usage: Vec<_> = store
            .usage()
            .unwrap()
            .into_iter()
            .map(|u| (u.pool.to_string(), u.addresses, u.claimed))
            .collect();
        assert_eq!(usage, [("four".to_owned(), 3, 2), ("six".to_owned(), 1 << 24, 1)]);
    }
}
