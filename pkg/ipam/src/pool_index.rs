//! What the files of a pool directory say, kept so that an ADD need not read them all.
//!
//! An index is used only if every file is the one that it was made of: each has the name, the inode, the size and both
//! times that it had. A file's time of change cannot be set by anybody, and an index is not made while a file was changed
//! just now: the kernel's clock ticks slowly, and two changes in one tick have one time. Whatever an index cannot answer
//! well, an error above all, the files themselves are read for. A few small files are read as fast as their index would be:
//! of them none is made.

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

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{FileStat, Mode, fstatat},
};
use serde_json::Value;

use crate::{Pools, index_record, pattern, pools::is_pool_file_name};

/// The first bytes of an index, with the number of its form.
const MAGIC: &[u8; 8] = b"silkidx2";
/// Magic, key and the length of the table.
const HEAD: usize = 28;
/// A file that was changed less than this ago may change again and keep its time. The coarsest clock of a file system
/// that is met ticks every two seconds.
const MTIME_GRANULARITY: Duration = Duration::from_secs(3);
/// Files that are together shorter than this have no index.
const MIN_INDEXED_BYTES: u64 = 32 << 10;
/// No index is longer; what would be is not kept.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Which pools of a directory are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolQuery<'a> {
    /// Names and patterns of a configuration; without any, the pools with `default` are asked for.
    pub listed: [&'a [String]; 2],
    /// Names besides.
    pub also: &'a [String],
}

/// The files of a directory, as they are now.
pub(crate) struct PoolDirListing {
    /// What tells them from others, and from what they were.
    key: IndexKey,
    /// Whether no change can go unnoticed.
    settled: bool,
    /// How long the files are together.
    bytes: u64,
}

/// A hash of everything by which a change of a file shows. It is made by every ADD, of files that only root can make: that
/// two listings have one of 128 bits does not happen by chance.
type IndexKey = [u8; 16];

impl PoolDirListing {
    /// Looks at the files of a directory; `None` if it cannot be looked at.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::open(directory, flags, Mode::empty()).ok()?;
        let here = open(directory, flags | OFlag::O_PATH, Mode::empty()).ok()?;
        let now = SystemTime::now();
        let mut hash = ListingHash::of(directory);
        let (mut settled, mut bytes) = (true, 0_u64);
        // In the order of the directory, which is the same as long as nothing is changed there.
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

/// Two hashes of 64 bits. Each step is a bijection: of two listings that differ in one number only, both hashes differ.
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

/// Adds a file, and says what it is; `Some(None)` is a link that leads nowhere.
fn add(hash: &mut ListingHash, dir: &impl AsFd, name: &CStr) -> Option<Option<FileStat>> {
    hash.bytes(name.to_bytes());
    // As it is read: by the file that a link leads to.
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
    // In the future, after a clock was set back: then no time says anything.
    changed.is_some_and(|changed| now.duration_since(changed).is_ok_and(|age| age > MTIME_GRANULARITY))
}

/// Where the index of a directory is.
fn path(state: &Path, directory: &Path) -> PathBuf {
    let bytes = directory.as_os_str().as_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    state.join("ipam/index").join(format!("{hash:016x}"))
}

/// The pools that are wanted of a directory, by its index; `None` if that cannot be said.
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
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    let (magic, rest) = head.split_at(MAGIC.len());
    let (key, table) = rest.split_at(listing.key.len());
    let table = length(table)?;
    if magic != MAGIC || key != listing.key || table as u64 > MAX_INDEX_BYTES {
        return None;
    }
    let mut bytes = vec![0; table];
    file.read_exact_at(&mut bytes, HEAD as u64).ok()?;
    let records = (HEAD + bytes.len()) as u64;
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

/// What of a table is wanted.
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

    /// Whether a pool is wanted; `None` if that cannot be said.
    fn wants(&self, entry: &IndexEntry<'_>) -> Option<bool> {
        // Whether a pool that is there twice is a default one nobody knows.
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

/// Keeps what was read of a directory that had these files before and has them still. That it cannot be kept is no error.
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

/// Puts an index in place whole. Several processes may do so at once; each has a file of its own until then.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700)
        .recursive(true)
        .create(directory)?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    // What a killed process of this number has left.
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

/// A pool of the table, or the reserved addresses.
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

/// The table, entry by entry; `Some(None)` is one that cannot be understood.
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

#[cfg(test)]
mod tests;
