//! How full the pools are that this node has given addresses of.

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

/// How full a pool is on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUsage {
    /// The pool.
    pub pool: PoolName,
    /// The family of its addresses.
    pub family: IpFamily,
    /// How many addresses it can give.
    pub addresses: u64,
    /// How many of them are claimed, by whomever.
    pub claimed: u64,
}

impl LocalStore {
    /// How full each pool is that an ADD was asked for addresses of, as it was then written. Nothing is changed and nobody
    /// is waited for; the cost grows with the claims.
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

    /// A number that is the same as long as no claim came or went; 0 says nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn stamp(&self) -> Result<u64, StoreError> {
        self.claims.stamp()
    }

    /// The pools that have a map, their ranges and how many of their addresses are used.
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

/// What a map says of itself; `None` if it says nothing, or has just gone.
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
    fn it_is_told_how_full_each_pool_is() {
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
        let told: Vec<_> = store
            .usage()
            .unwrap()
            .into_iter()
            .map(|u| (u.pool.to_string(), u.addresses, u.claimed))
            .collect();
        assert_eq!(told, [("four".to_owned(), 3, 2), ("six".to_owned(), 1 << 24, 1)]);
    }
}
