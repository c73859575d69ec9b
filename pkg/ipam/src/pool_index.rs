//! An index of the pools of a directory, so that an ADD need not parse all files.
//!
//! An index is used only if the files are the ones that it was made from: the name, the inode, the size, the mtime and the
//! ctime of each file are unchanged. Programs cannot set the ctime. An index is not written if a file was changed within
//! the last seconds: timestamps have the granularity of a clock tick, and two changes within a tick have the same ctime.
//! Error messages are always made from the files. A few small files are read as fast as an index, so none is written.

use std::{
    ffi::CStr,
    fs::{self, File},
    io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::FileExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use identifiers::pattern;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{FileStat, Mode, fstatat},
};
use serde_json::Value;

use crate::{PoolReadError, Pools, index_record, pool_file_name::is_pool_file_name};

/// The first bytes of an index; the last one is the version of the format.
const MAGIC: &[u8; 8] = b"silkidx2";
/// The length of the header: magic, key and the length of the table.
const HEADER_LEN: usize = 28;
/// A file that was changed more recently than this may change again without a new timestamp. The coarsest timestamps of a
/// common file system, FAT, have a granularity of two seconds.
const MTIME_GRANULARITY: Duration = Duration::from_secs(3);
/// The minimum total size of the files for which an index is written.
const MIN_INDEXED_BYTES: u64 = 32 << 10;
/// The maximum length of an index; a longer one is not written.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// A query for pools of a directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolQuery<'a> {
    /// The names and patterns of a configuration. If both lists are empty, the pools with `default: true` match.
    pub listed: [&'a [String]; 2],
    /// Further names.
    pub also: &'a [String],
}

/// The current files of a directory.
pub(crate) struct PoolDirListing {
    /// The hash of the metadata of all files.
    key: IndexKey,
    /// Whether every later change will change the key, because no file was changed recently.
    settled: bool,
    /// The total size of the files in bytes.
    bytes: u64,
}

/// A hash of the metadata of all files. It is not cryptographic, because only root can write the files; 128 bits exclude a
/// collision by chance.
type IndexKey = [u8; 16];

impl PoolDirListing {
    /// Lists the files of a directory; `None` if an error occurs.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::open(directory, flags, Mode::empty()).ok()?;
        let here = open(directory, flags | OFlag::O_PATH, Mode::empty()).ok()?;
        let now = SystemTime::now();
        let mut hash = ListingHash::of(directory);
        let (mut settled, mut bytes) = (true, 0_u64);
        // In the order of readdir(3), which is stable while the directory is unchanged.
        for entry in dir.iter() {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if !is_pool_file_name(name.to_bytes()) {
                continue;
            }
            if let Some(stat) = add(&mut hash, &here, name)? {
                settled &= is_settled(&stat, now);
                bytes = bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or_default());
            }
        }
        Some(Self { key: hash.key(), settled, bytes })
    }

    fn is_large_enough(&self) -> bool {
        self.bytes >= MIN_INDEXED_BYTES
    }
}

/// Two hashes of 64 bits. Each step is a bijection, so both hashes differ for two listings that differ in one number.
struct ListingHash([u64; 2]);

impl ListingHash {
    fn of(directory: &Path) -> Self {
        let mut hash = Self([0, 1]);
        hash.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        hash.bytes(directory.as_os_str().as_bytes());
        hash
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for part in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..part.len()].copy_from_slice(part);
            self.number(u64::from_le_bytes(number));
        }
    }

    fn number(&mut self, number: u64) {
        let [a, b] = &mut self.0;
        *a = (*a ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        *b = (*b ^ number).wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31);
    }

    fn key(&self) -> IndexKey {
        let mut key = [0; 16];
        for (part, hash) in key.chunks_exact_mut(8).zip(self.0) {
            part.copy_from_slice(&hash.to_le_bytes());
        }
        key
    }
}

/// Adds a file to the hash and returns its metadata; `Some(None)` is a dangling link.
fn add(hash: &mut ListingHash, dir: &impl AsFd, name: &CStr) -> Option<Option<FileStat>> {
    hash.bytes(name.to_bytes());
    // Follows links, as reading the file does.
    let stat = match fstatat(dir.as_fd(), name, AtFlags::empty()) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => {
            hash.number(0);
            return Some(None);
        }
        Err(_) => return None,
    };
    hash.number(1);
    let times = [stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec];
    for number in [stat.st_dev, stat.st_ino].into_iter().chain(times.map(i64::cast_unsigned)) {
        hash.number(number);
    }
    Some(Some(stat))
}

fn is_settled(stat: &FileStat, now: SystemTime) -> bool {
    let changed = u64::try_from(stat.st_ctime.max(stat.st_mtime)).unwrap_or(u64::MAX);
    let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(changed));
    // The time is in the future if the clock was set back; timestamps are not reliable then.
    changed.is_some_and(|changed| now.duration_since(changed).is_ok_and(|age| age > MTIME_GRANULARITY))
}

/// Returns the path of the index of a directory: `<state>/ipam/index/<hash of the directory's path>`.
fn path(state: &Path, directory: &Path) -> PathBuf {
    let bytes = directory.as_os_str().as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    state.join("ipam/index").join(format!("{hash:016x}"))
}

/// Returns the pools of a directory that match `wanted`, read from its index; `None` if the index cannot be used.
pub(crate) fn find(
    state: &Path,
    directory: &Path,
    listing: &PoolDirListing,
    wanted: PoolQuery<'_>,
) -> Option<Pools> {
    if !listing.is_large_enough() {
        return None;
    }
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path(state, directory)).ok()?;
    let mut header = [0; HEADER_LEN];
    file.read_exact_at(&mut header, 0).ok()?;
    let (magic, rest) = header.split_at(MAGIC.len());
    let (key, table) = rest.split_at(listing.key.len());
    let table = length(table)?;
    if magic != MAGIC || key != listing.key || table as u64 > MAX_INDEX_BYTES {
        return None;
    }
    let mut bytes = vec![0; table];
    file.read_exact_at(&mut bytes, HEADER_LEN as u64).ok()?;
    let records = (HEADER_LEN + bytes.len()) as u64;
    let read = |entry: &IndexEntry<'_>| entry.record(&file, records);
    let filter = PoolFilter::of(wanted);
    let (mut pools, mut reserved) = (Vec::new(), Vec::new());
    for entry in IndexEntries(&bytes) {
        let entry = entry?;
        match entry.flags {
            IndexEntry::RESERVED => reserved = index_record::ranges(&read(&entry)?)?,
            _ if !filter.wants(&entry)? => {}
            IndexEntry::CONTESTED => return None,
            _ => pools.push(index_record::pool(&read(&entry)?)?),
        }
    }
    Some(Pools::of_index(pools, reserved))
}

/// The entries of a table that a query matches.
struct PoolFilter<'a> {
    names: Vec<&'a [u8]>,
    patterns: Vec<&'a str>,
    defaults: bool,
}

impl<'a> PoolFilter<'a> {
    fn of(wanted: PoolQuery<'a>) -> Self {
        let listed = || wanted.listed.into_iter().flatten().map(String::as_str);
        let names =
            listed().filter(|name| !pattern::is_pattern(name)).chain(wanted.also.iter().map(String::as_str));
        Self {
            names: names.map(str::as_bytes).collect(),
            patterns: listed().filter(|name| pattern::is_pattern(name)).collect(),
            defaults: listed().next().is_none(),
        }
    }

    /// Whether an entry matches; `None` if a pattern or a name is malformed.
    fn wants(&self, entry: &IndexEntry<'_>) -> Option<bool> {
        // A pool that is defined twice may be a default pool.
        if self.names.contains(&entry.name) || (self.defaults && entry.flags != IndexEntry::PLAIN) {
            return Some(true);
        }
        for pattern in &self.patterns {
            if pattern::matches(pattern, str::from_utf8(entry.name).ok()?).ok()? {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Writes the index of a directory if its files have not changed since `listing`. Failures are ignored.
pub(crate) fn write_index(state: &Path, directory: &Path, listing: &PoolDirListing, pools: &Pools) {
    let unchanged = || PoolDirListing::of(directory).is_some_and(|now| now.key == listing.key);
    if listing.settled
        && listing.is_large_enough()
        && unchanged()
        && let Some(bytes) = bytes(listing, pools)
    {
        let _ = write(&path(state, directory), &bytes);
    }
}

fn bytes(listing: &PoolDirListing, pools: &Pools) -> Option<Vec<u8>> {
    let (mut table, mut records) = (Vec::new(), Vec::new());
    let mut add = |name: &str, flags: u8, record: Value| {
        let record = record.to_string();
        table.push(flags);
        for number in [name.len(), records.len(), record.len()] {
            table.extend(u32::try_from(number).ok()?.to_le_bytes());
        }
        table.extend(name.as_bytes());
        records.extend(record.as_bytes());
        Some(())
    };
    add("", IndexEntry::RESERVED, index_record::of_ranges(pools.reserved()))?;
    for entry in pools.entries() {
        let flags = match (&entry.rival, entry.pool.default) {
            (Some(_), _) => IndexEntry::CONTESTED,
            (None, true) => IndexEntry::DEFAULT,
            (None, false) => IndexEntry::PLAIN,
        };
        add(entry.pool.name.as_str(), flags, index_record::of_pool(&entry.pool))?;
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(listing.key);
    bytes.extend(u32::try_from(table.len()).ok()?.to_le_bytes());
    bytes.extend([table, records].concat());
    (bytes.len() as u64 <= MAX_INDEX_BYTES).then_some(bytes)
}

/// Writes an index to a temporary file and renames it. Several processes can do this at the same time, each with its own
/// temporary file.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700)
        .recursive(true)
        .create(directory)?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    // A killed process with the same PID may have left one.
    let _ = fs::remove_file(&temporary);
    let written =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_data()?;
            fs::rename(&temporary, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// An entry of the table: a pool or the reserved addresses.
struct IndexEntry<'a> {
    flags: u8,
    name: &'a [u8],
    at: u64,
    length: usize,
}

impl IndexEntry<'_> {
    const PLAIN: u8 = 0;
    const DEFAULT: u8 = 1;
    const CONTESTED: u8 = 2;
    const RESERVED: u8 = 3;

    fn record(&self, file: &File, records: u64) -> Option<Value> {
        if self.length as u64 > MAX_INDEX_BYTES {
            return None;
        }
        let mut bytes = vec![0; self.length];
        file.read_exact_at(&mut bytes, records + self.at).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Iterates over the entries of a table; `Some(None)` is a malformed entry, after which the iteration ends.
struct IndexEntries<'a>(&'a [u8]);

impl<'a> Iterator for IndexEntries<'a> {
    type Item = Option<IndexEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = take(&mut self.0);
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry)
    }
}

fn take<'a>(table: &mut &'a [u8]) -> Option<IndexEntry<'a>> {
    let (&[flags, a, b, c, d, e, f, g, h, i, j, k, l], rest) = table.split_first_chunk()?;
    let number = |bytes| u32::from_le_bytes(bytes);
    let (name, rest) = rest.split_at_checked(number([a, b, c, d]) as usize)?;
    *table = rest;
    Some(IndexEntry { flags, name, at: number([e, f, g, h]).into(), length: number([i, j, k, l]) as usize })
}

fn length(bytes: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

impl Pools {
    /// As [`Pools::read_dir`], but returns at least the pools that match `wanted`: they are read from an index below the
    /// state directory if no file has changed since it was written. With `keep`, an index is written if there is none.
    ///
    /// The result of an index [is partial](Pools::is_partial): a caller that does not find a pool in it must read the
    /// directory.
    ///
    /// # Errors
    /// As [`Pools::read_dir`].
    pub fn read_wanted(
        path: &Path,
        wanted: PoolQuery<'_>,
        state: &Path,
        keep: bool,
    ) -> Result<Self, PoolReadError> {
        let listing = PoolDirListing::of(path);
        if let Some(found) = listing.as_ref().and_then(|listing| find(state, path, listing, wanted)) {
            return Ok(found);
        }
        let pools = Self::read_dir(path)?;
        if let Some(listing) = listing.filter(|_| keep && !pools.has_io_error) {
            write_index(state, path, &listing, &pools);
        }
        Ok(pools)
    }
}

#[cfg(test)]
mod tests;
