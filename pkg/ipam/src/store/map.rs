//! The map of a pool: a bitmap of the addresses that are claimed.
//!
//! It has one bit per ordinal, which is set when the address is found to be claimed. The map is only a hint: a stale
//! clear bit costs one failed attempt, a stale set bit hides an address until the map is rewritten from the claims.
//! Writes therefore need not be atomic, and a map that is not valid is rewritten. A file that is not a map is
//! quarantined.
//!
//! ```text
//!   0  magic "silkmap\0"                          24  bits             u32
//!   8  format version  u32                        28  rotor            u32
//!  12  intervals       u32                        32  stamp of claims  u64
//!  16  hash            u64                        40  family 4 or 6, then zeros
//!  64  intervals, each its first and last address as u128
//!   …  bitmap, padded to 8 bytes                  all numbers little-endian
//! ```
//! A release uses the intervals to find its bit, even if the pool has been removed from the configuration.

use std::{
    fs::File,
    io,
    net::IpAddr,
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::PathBuf,
    time::Instant,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat, renameat},
    libc,
    sys::stat::{Mode, fstatat},
};
use tracing::warn;

use crate::{
    IpRanges, PoolName, StoreError,
    store::{
        header::{MapHeader, ROTOR_AT},
        kill_point,
        lock::lock,
    },
};

/// The directory of maps, opened.
#[derive(Debug)]
pub(crate) struct MapDir {
    pub(crate) directory: OwnedFd,
    pub(crate) path: PathBuf,
}

/// The content of a pool's map file.
#[derive(Debug)]
pub(crate) enum MapFileContent {
    /// A valid map of the pool's ranges.
    Map(AddressMap),
    /// An empty file, or the map of other ranges: the file can be overwritten.
    Old(File),
    /// The file is truncated or is not a map.
    Damaged(File),
}

/// A pool's map, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct AddressMap {
    file: File,
    header: MapHeader,
}

impl MapDir {
    /// Opens and locks the map file of a pool. Creates it if it does not exist.
    pub(crate) fn lock(&self, pool: &PoolName, deadline: Instant) -> Result<File, StoreError> {
        kill_point::point();
        let file = match self.open(pool, OFlag::O_CREAT) {
            // The entry is a link, a directory or a socket.
            Err(StoreError::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)) =>
            {
                self.rename_quarantined(pool)?;
                self.open(pool, OFlag::O_CREAT)?
            }
            opened => opened?,
        };
        let path = self.path.join(pool.as_str());
        let file =
            file.ok_or_else(|| StoreError::io("open map", &path)(io::Error::from(io::ErrorKind::NotFound)))?;
        lock(&file, &path, deadline)?;
        Ok(file)
    }

    /// Quarantines a locked file that is not a map, unless another process has done so.
    pub(crate) fn quarantine(&self, pool: &PoolName, file: &File) -> Result<(), StoreError> {
        let path = self.path.join(pool.as_str());
        let ours = file.metadata().map_err(StoreError::io("stat map", &path))?.ino();
        match fstatat(&self.directory, pool.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) if there.st_ino == ours => self.rename_quarantined(pool),
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(StoreError::io("stat map", path)(errno)),
        }
    }

    /// Renames the map of a pool to `<pool>@bad`, which is not a valid pool name.
    fn rename_quarantined(&self, pool: &PoolName) -> Result<(), StoreError> {
        let (path, quarantined) = (self.path.join(pool.as_str()), format!("{pool}@bad"));
        kill_point::point();
        renameat(&self.directory, pool.as_str(), &self.directory, quarantined.as_str())
            .map_err(StoreError::io("quarantine map", &path))?;
        warn!(map = %path.display(), %quarantined, "an address map is not valid; it is quarantined and written again");
        Ok(())
    }

    /// Locks the map of a pool and finds the ordinal of an address in the map's own table. `None` if there is none.
    pub(crate) fn find(
        &self,
        pool: &PoolName,
        address: IpAddr,
        deadline: Instant,
    ) -> Result<Option<(AddressMap, u32)>, StoreError> {
        let Some(file) = self.open(pool, OFlag::empty())? else { return Ok(None) };
        let path = self.path.join(pool.as_str());
        lock(&file, &path, deadline)?;
        let found = || -> io::Result<Option<(AddressMap, u32)>> {
            let Some(header) = read_header(&file)? else { return Ok(None) };
            if file.metadata()?.len() < header.file_len() {
                return Ok(None);
            }
            let mut table = vec![0; usize::try_from(header.table_len()).unwrap_or(0)];
            file.read_exact_at(&mut table, MapHeader::LEN as u64)?;
            let ordinal = header.ordinal(&table, address);
            Ok(ordinal.map(|ordinal| (AddressMap { file, header }, ordinal)))
        };
        found().map_err(StoreError::io("read map", path))
    }

    /// Reads the map of a pool without a lock; `None` if there is no valid map of these ranges.
    pub(crate) fn peek(&self, pool: &PoolName, ranges: &IpRanges) -> Result<Option<AddressMap>, StoreError> {
        let Some(file) = self.open(pool, OFlag::empty())? else { return Ok(None) };
        let read = AddressMap::read(file, ranges);
        Ok(match read.map_err(StoreError::io("read map", self.path.join(pool.as_str())))? {
            MapFileContent::Map(map) => Some(map),
            MapFileContent::Old(_) | MapFileContent::Damaged(_) => None,
        })
    }

    fn open(&self, pool: &PoolName, more: OFlag) -> Result<Option<File>, StoreError> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | more;
        match openat(&self.directory, pool.as_str(), flags, Mode::from_bits_truncate(0o600)) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::ENOENT) if !more.contains(OFlag::O_CREAT) => Ok(None),
            Err(errno) => Err(StoreError::io("open map", self.path.join(pool.as_str()))(errno)),
        }
    }
}

impl AddressMap {
    /// Reads the content of a locked file, which should be a map of these ranges.
    pub(crate) fn read(file: File, ranges: &IpRanges) -> io::Result<MapFileContent> {
        let (wanted, _) = MapHeader::of(ranges);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(MapFileContent::Damaged(file));
        }
        Ok(match read_header(&file)? {
            Some(header) if meta.len() < header.file_len() => MapFileContent::Damaged(file),
            Some(header) if header.fits(&wanted) => MapFileContent::Map(Self { file, header }),
            Some(_) => MapFileContent::Old(file),
            None if is_unwritten(&file)? => MapFileContent::Old(file),
            None => MapFileContent::Damaged(file),
        })
    }

    /// Writes a map in which exactly the addresses of `taken` are claimed.
    ///
    /// The header is written last: a kill in between leaves a file that is not a map.
    pub(crate) fn write(
        file: File,
        ranges: &IpRanges,
        rotor: u32,
        stamp: u64,
        taken: &[IpAddr],
    ) -> io::Result<Self> {
        let (mut header, table) = MapHeader::of(ranges);
        (header.rotor, header.stamp) = (rotor, stamp);
        let mut bitmap = vec![0_u8; usize::try_from(header.bitmap_len()).unwrap_or(0)];
        for address in taken {
            let ordinal = ranges.ordinal(*address).and_then(|ordinal| usize::try_from(ordinal).ok());
            if let Some(ordinal) = ordinal
                && let Some(byte) = bitmap.get_mut(ordinal / 8)
            {
                *byte |= 1 << (ordinal % 8);
            }
        }
        kill_point::point();
        file.set_len(0)?;
        kill_point::point();
        file.set_len(header.file_len())?;
        kill_point::point();
        file.write_all_at(&table, MapHeader::LEN as u64)?;
        let mut at = header.bitmap_at();
        for chunk in bitmap.chunks(4096) {
            if chunk.iter().any(|byte| *byte != 0) {
                kill_point::point();
                file.write_all_at(chunk, at)?; // the rest stays a hole
            }
            at += chunk.len() as u64;
        }
        kill_point::point();
        file.write_all_at(&header.to_bytes(), 0)?;
        Ok(Self { file, header })
    }

    /// Rewrites the map from the claims. The rotor is kept.
    pub(crate) fn rewrite(self, ranges: &IpRanges, stamp: u64, taken: &[IpAddr]) -> io::Result<Self> {
        let rotor = self.header.rotor;
        Self::write(self.file, ranges, rotor, stamp, taken)
    }

    pub(crate) fn header(&self) -> &MapHeader {
        &self.header
    }

    /// Reads a part of the bitmap, starting at byte `at`.
    pub(crate) fn read_bits(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        count(bytes.len());
        self.file.read_exact_at(bytes, self.header.bitmap_at() + at)
    }

    /// Writes one byte of the bitmap.
    pub(crate) fn write_bits(&self, at: u64, byte: u8) -> io::Result<()> {
        kill_point::point();
        self.file.write_all_at(&[byte], self.header.bitmap_at() + at)
    }

    /// Marks an address as free.
    pub(crate) fn clear(&self, ordinal: u32) -> io::Result<()> {
        let at = u64::from(ordinal / 8);
        let mut byte = [0];
        self.read_bits(at, &mut byte)?;
        self.write_bits(at, byte[0] & !(1 << (ordinal % 8)))
    }

    /// Sets the rotor, so that the next search starts after `ordinal`.
    pub(crate) fn set_rotor(&mut self, ordinal: u32) -> io::Result<()> {
        self.header.rotor = (ordinal + 1) % self.header.bits;
        kill_point::point();
        self.file.write_all_at(&self.header.rotor.to_le_bytes(), ROTOR_AT)
    }
}

fn read_header(file: &File) -> io::Result<Option<MapHeader>> {
    let mut bytes = [0; MapHeader::LEN];
    count(bytes.len());
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(MapHeader::from_bytes(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file has no header yet: it is new, or the process that wrote it was killed before the last step.
fn is_unwritten(file: &File) -> io::Result<bool> {
    let mut bytes = [0; MapHeader::LEN];
    let length = file.read_at(&mut bytes, 0)?;
    Ok((length == 0 || length == MapHeader::LEN) && bytes.iter().all(|byte| *byte == 0))
}

#[cfg(not(test))]
fn count(_bytes: usize) {}

#[cfg(test)]
pub(crate) use counter::count;

#[cfg(test)]
pub(crate) mod counter {
    //! Counts the bytes of maps that this thread has read.

    use std::cell::Cell;

    thread_local! {
        static BYTES: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn count(bytes: usize) {
        BYTES.set(BYTES.get() + bytes);
    }

    /// Returns the number of bytes read since the last call.
    pub(crate) fn take() -> usize {
        BYTES.replace(0)
    }
}
