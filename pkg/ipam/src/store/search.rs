//! The search for a free address in a map.

use std::io;

use crate::store::map::AddressMap;

/// The number of bytes of a map that are read at once.
const CHUNK: usize = 4096;
const CHUNK_BITS: u32 = 8 * 4096;

/// Iterates once over the clear bits of a map, starting at the rotor and wrapping around.
///
/// This is next fit, not first fit: a released address is not reused until the rotor reaches it, so that neighbour
/// caches of peers expire.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    map: &'a AddressMap,
    /// The next ordinal to check.
    at: u32,
    /// The number of ordinals that are left to check.
    left: u32,
    chunk: [u8; CHUNK],
    /// The index of the chunk that is loaded.
    loaded: Option<u32>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(map: &'a AddressMap) -> Self {
        let header = map.header();
        Self { map, at: header.rotor, left: header.bits, chunk: [0; CHUNK], loaded: None }
    }

    /// Returns the next ordinal whose bit is clear.
    pub(crate) fn next(&mut self) -> io::Result<Option<u32>> {
        let bits = self.map.header().bits;
        while self.left > 0 {
            self.load(self.at / CHUNK_BITS)?;
            let from = self.at % CHUNK_BITS;
            let here = self.left.min(CHUNK_BITS - from).min(bits - self.at);
            let found = first_clear(&self.chunk, from, from + here);
            let passed = found.map_or(here, |found| found - from + 1);
            let ordinal = self.at + passed - 1;
            self.left -= passed;
            self.at = (self.at + passed) % bits;
            if found.is_some() {
                return Ok(Some(ordinal));
            }
        }
        Ok(None)
    }

    /// Sets the bit of the ordinal that `next` returned last.
    pub(crate) fn set(&mut self, ordinal: u32) -> io::Result<()> {
        let in_chunk = (ordinal % CHUNK_BITS / 8) as usize;
        self.chunk[in_chunk] |= 1 << (ordinal % 8);
        self.map.write_bits((ordinal / 8).into(), self.chunk[in_chunk])
    }

    fn load(&mut self, chunk: u32) -> io::Result<()> {
        if self.loaded != Some(chunk) {
            let at = u64::from(chunk) * CHUNK as u64;
            let len = (self.map.header().bitmap_len() - at).min(CHUNK as u64);
            self.map.read_bits(at, &mut self.chunk[..usize::try_from(len).unwrap_or(CHUNK)])?;
            self.loaded = Some(chunk);
        }
        Ok(())
    }
}

/// Returns the first clear bit in `from..to`. Checks 64 bits at a time.
fn first_clear(bytes: &[u8; CHUNK], from: u32, to: u32) -> Option<u32> {
    let mut bit = from;
    while bit < to {
        let word =
            bytes[(bit / 64 * 8) as usize..].first_chunk().copied().map_or(u64::MAX, u64::from_le_bytes);
        let clear = !word >> (bit % 64);
        if clear != 0 {
            return Some(bit + clear.trailing_zeros()).filter(|found| *found < to);
        }
        bit = (bit / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IpFamily, IpRanges};

    /// Returns a map of `bits` addresses, of which those of `taken` are claimed.
    fn map(bits: u32, rotor: u32, taken: &[u32]) -> AddressMap {
        let first = u128::from(u32::from_be_bytes([10, 0, 0, 0]));
        let ranges = IpRanges::from_spans(IpFamily::V4, [(first, first + u128::from(bits) - 1)]);
        let taken: Vec<_> = taken.iter().map(|ordinal| ranges.nth((*ordinal).into()).unwrap()).collect();
        AddressMap::write(tempfile::tempfile().unwrap(), &ranges, rotor, 0, &taken).unwrap()
    }

    fn found(map: &AddressMap) -> Vec<u32> {
        let mut search = Search::new(map);
        std::iter::from_fn(|| search.next().unwrap()).collect()
    }

    #[test]
    fn every_clear_bit_is_found_once_from_the_rotor_on() {
        for bits in [1, 63, 64, 65, 127, CHUNK_BITS - 1, CHUNK_BITS, CHUNK_BITS + 1, 3 * CHUNK_BITS] {
            for rotor in [0, 1, 62, 63, 64, bits / 2, bits - 1].into_iter().filter(|rotor| *rotor < bits) {
                let taken: Vec<u32> =
                    (0..bits).filter(|ordinal| ordinal % 7 == 3 || ordinal / 64 % 5 == 1).collect();
                let clear =
                    (rotor..bits).chain(0..rotor).filter(|ordinal| taken.binary_search(ordinal).is_err());
                assert_eq!(
                    found(&map(bits, rotor, &taken)),
                    clear.collect::<Vec<_>>(),
                    "{bits} bits from {rotor}"
                );
            }
        }
    }

    #[test]
    fn a_full_map_has_no_clear_bit() {
        for bits in [1, 64, 65, CHUNK_BITS + 1] {
            assert_eq!(found(&map(bits, bits - 1, &(0..bits).collect::<Vec<_>>())), [] as [u32; 0]);
        }
    }

    #[test]
    fn a_bit_set_during_the_search_stays_set() {
        let map = map(100, 98, &[]);
        let mut search = Search::new(&map);
        for _ in 0..4 {
            let ordinal = search.next().unwrap().unwrap();
            search.set(ordinal).unwrap();
        }
        assert_eq!(found(&map).len(), 96);
        assert!(!found(&map).contains(&1));
    }
}
