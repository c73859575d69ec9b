//! The header of a map file, which identifies the ranges of its bits.

use std::net::IpAddr;

use crate::{IpFamily, IpRanges, ip_ranges::NumberedRange};

/// The maximum number of addresses of a pool that are used: the first 2^24, whose map has 2 MiB.
pub const MAX_ADDRESSES: u32 = 1 << 24;

const MAGIC: [u8; 8] = *b"silkmap\0";
const VERSION: u32 = 1;
/// The offset of the rotor in the file.
pub(crate) const ROTOR_AT: u64 = 28;
/// The length of one interval in bytes: two `u128`.
const INTERVAL: usize = 32;

/// The fixed part of a pool's map, which identifies the ranges that it was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapHeader {
    family: IpFamily,
    intervals: u32,
    /// The hash of the family and the intervals.
    hash: u64,
    /// The number of ordinals.
    pub(crate) bits: u32,
    /// The ordinal at which the next search starts.
    pub(crate) rotor: u32,
    /// The stamp of the claims when the map was last written from them.
    pub(crate) stamp: u64,
}

impl MapHeader {
    /// The length in bytes.
    pub const LEN: usize = 64;

    /// Returns the header of a map for these ranges, and its table of intervals.
    pub(crate) fn of(ranges: &IpRanges) -> (Self, Vec<u8>) {
        let table = encode(ranges);
        let bits = u32::try_from(ranges.len()).map_or(MAX_ADDRESSES, |len| len.min(MAX_ADDRESSES));
        let intervals = u32::try_from(table.len() / INTERVAL).unwrap_or(u32::MAX);
        let hash = hash(ranges.family(), &table);
        (Self { family: ranges.family(), intervals, hash, bits, rotor: 0, stamp: 0 }, table)
    }

    /// Whether both headers are for the same ranges.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        let ranges = |header: &Self| (header.family, header.intervals, header.hash, header.bits);
        ranges(self) == ranges(other)
    }

    /// Returns the length of the table of intervals, which follows the fixed part, in bytes.
    pub(crate) fn table_len(&self) -> u64 {
        u64::from(self.intervals) * INTERVAL as u64
    }

    /// Returns the offset of the bitmap.
    pub(crate) fn bitmap_at(&self) -> u64 {
        Self::LEN as u64 + self.table_len()
    }

    /// Returns the length of the bitmap in bytes, a multiple of 8.
    pub(crate) fn bitmap_len(&self) -> u64 {
        u64::from(self.bits).div_ceil(64) * 8
    }

    /// Returns the length of the whole file in bytes.
    pub(crate) fn file_len(&self) -> u64 {
        self.bitmap_at() + self.bitmap_len()
    }

    /// Encodes the header for [`MapHeader::from_bytes`].
    pub fn to_bytes(self) -> [u8; MapHeader::LEN] {
        let mut bytes = [0; MapHeader::LEN];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.intervals.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.hash.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.bits.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.rotor.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.stamp.to_le_bytes());
        bytes[40] = self.family.version();
        bytes
    }

    /// Decodes a header; `None` if it is not valid.
    pub fn from_bytes(bytes: &[u8; MapHeader::LEN]) -> Option<Self> {
        if field(bytes, 0)? != MAGIC || u32::from_le_bytes(field(bytes, 8)?) != VERSION {
            return None;
        }
        let family = IpFamily::ALL.into_iter().find(|family| family.version() == bytes[40])?;
        let header = Self {
            family,
            intervals: u32::from_le_bytes(field(bytes, 12)?),
            hash: u64::from_le_bytes(field(bytes, 16)?),
            bits: u32::from_le_bytes(field(bytes, 24)?),
            rotor: u32::from_le_bytes(field(bytes, 28)?),
            stamp: u64::from_le_bytes(field(bytes, 32)?),
        };
        let sane = (1..=MAX_ADDRESSES).contains(&header.bits)
            && header.rotor < header.bits
            && header.intervals <= header.bits;
        sane.then_some(header)
    }

    /// Returns the ordinal of an address according to the map's own table; `None` if it has none or the table is damaged.
    pub fn ordinal(&self, table: &[u8], address: IpAddr) -> Option<u32> {
        let ordinal = self.ranges(table)?.ordinal(address)?;
        u32::try_from(ordinal).ok().filter(|ordinal| *ordinal < self.bits)
    }

    /// Returns the ranges of the map's own table; `None` if the table is damaged.
    pub(crate) fn ranges(&self, table: &[u8]) -> Option<IpRanges> {
        if hash(self.family, table) != self.hash {
            return None;
        }
        decode(self.family, table)
    }
}

fn field<const N: usize>(bytes: &[u8; MapHeader::LEN], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Encodes the intervals with ordinals below [`MAX_ADDRESSES`].
fn encode(ranges: &IpRanges) -> Vec<u8> {
    let used = |interval: &&NumberedRange| interval.ordinal < MAX_ADDRESSES.into();
    let bytes = |interval: &NumberedRange| [interval.first.to_le_bytes(), interval.last.to_le_bytes()];
    ranges.intervals().iter().take_while(used).flat_map(bytes).flatten().collect()
}

/// Decodes the ranges of a table; `None` if its intervals are reversed or overlap.
fn decode(family: IpFamily, table: &[u8]) -> Option<IpRanges> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_le_bytes);
    let spans: Option<Vec<_>> =
        table.chunks_exact(INTERVAL).map(|pair| Some((number(&pair[..16])?, number(&pair[16..])?))).collect();
    let spans = spans?;
    let mut sorted = spans.clone();
    sorted.sort_unstable();
    let disjoint = sorted.iter().all(|(first, last)| first <= last) && sorted.is_sorted_by(|a, b| a.1 < b.0);
    disjoint.then(|| IpRanges::from_spans(family, spans))
}

/// FNV-1a. It need not be cryptographic, because only root can write maps and a map is only a hint.
fn hash(family: IpFamily, table: &[u8]) -> u64 {
    let bytes = std::iter::once(family.version()).chain(table.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> IpRanges {
        let listed: Vec<crate::IpRange> = texts.iter().map(|text| text.parse().unwrap()).collect();
        IpRanges::new(listed[0].family(), &listed, &[])
    }

    #[test]
    fn a_header_is_decoded_as_encoded() {
        let (header, table) = MapHeader::of(&ranges(&["fd00::5-fd00::9", "fd00::1"]));
        let header = MapHeader { rotor: 3, stamp: 7, ..header };
        assert_eq!(MapHeader::from_bytes(&header.to_bytes()), Some(header));
        assert_eq!((header.bits, header.bitmap_at(), header.bitmap_len()), (6, 128, 8));
        assert_eq!(header.ordinal(&table, "fd00::1".parse().unwrap()), Some(5));
        assert_eq!(header.ordinal(&table, "fd00::2".parse().unwrap()), None);
        assert_eq!(header.ordinal(&table[..32], "fd00::5".parse().unwrap()), None, "damaged");
    }

    #[test]
    fn other_ranges_or_another_order_do_not_fit() {
        let header = |texts: &[&str]| MapHeader::of(&ranges(texts)).0;
        let ours = header(&["10.0.0.1-10.0.0.9", "10.0.1.1"]);
        assert!(ours.fits(&MapHeader { rotor: 5, stamp: 1, ..ours }));
        assert!(!ours.fits(&header(&["10.0.1.1", "10.0.0.1-10.0.0.9"])));
        assert!(!ours.fits(&header(&["10.0.0.1-10.0.0.9"])));
    }

    #[test]
    fn a_large_range_uses_its_first_addresses() {
        let (header, _) = MapHeader::of(&ranges(&["fd00::-fd00::ffff:ffff:ffff:ffff"]));
        assert_eq!((header.bits, header.bitmap_len()), (MAX_ADDRESSES, 2 << 20));
    }

    #[test]
    fn invalid_intervals_are_damage_even_if_their_hash_matches() {
        let (header, table) = MapHeader::of(&ranges(&["10.0.0.5-10.0.0.9", "10.0.1.1"]));
        let (one, other) = table.split_at(INTERVAL);
        let reversed = [&one[16..], &one[..16], other].concat();
        for damaged in [reversed, [one, one].concat()] {
            let header = MapHeader { hash: hash(IpFamily::V4, &damaged), ..header };
            assert_eq!(header.ordinal(&damaged, "10.0.0.5".parse().unwrap()), None);
        }
    }

    #[test]
    fn damaged_headers_are_refused() {
        let (header, _) = MapHeader::of(&ranges(&["10.0.0.1-10.0.0.9"]));
        assert_eq!(MapHeader::from_bytes(&[0; MapHeader::LEN]), None);
        for (at, value) in [(0, b'S'), (8, 2), (24, 0), (27, 255), (28, 9), (40, 5), (15, 1)] {
            let mut bytes = header.to_bytes();
            bytes[at] = value;
            assert_eq!(MapHeader::from_bytes(&bytes), None, "byte {at}");
        }
    }
}
