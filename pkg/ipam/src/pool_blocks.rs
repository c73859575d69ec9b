//! The blocks that contain the addresses of a pool.

use crate::{
    BlockSize, IpBlock, IpFamily, IpRanges,
    ip_range::{address, number},
};

/// The blocks of one size that contain addresses of a pool, numbered from 0 in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolBlocks {
    family: IpFamily,
    size: BlockSize,
    /// Disjoint spans of blocks: the first, counted from the address 0, and their number.
    spans: Vec<(u128, u128)>,
}

impl PoolBlocks {
    /// Returns the blocks of these ranges.
    pub fn of(ranges: &IpRanges, size: BlockSize) -> Self {
        let per_block = u128::from(size.addresses());
        let mut ends: Vec<_> = ranges
            .iter()
            .map(|range| (number(range.first()) / per_block, number(range.last()) / per_block))
            .collect();
        ends.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::new();
        for (first, last) in ends {
            match merged.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        // `::/0` in blocks of one address has 2^128.
        let spans =
            merged.into_iter().map(|(first, last)| (first, (last - first).saturating_add(1))).collect();
        Self { family: ranges.family(), size, spans }
    }

    /// Returns the number of blocks, at most `u128::MAX`.
    pub fn len(&self) -> u128 {
        self.spans.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Whether a block, which may be of another size, shares an address with one of these.
    pub fn overlaps(&self, block: IpBlock) -> bool {
        let per_block = u128::from(self.size.addresses());
        let range = block.range();
        let (first, last) = (number(range.first()) / per_block, number(range.last()) / per_block);
        let overlaps =
            |(start, count): &(u128, u128)| first <= start.saturating_add(count - 1) && *start <= last;
        range.family() == self.family && self.spans.iter().any(overlaps)
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the block with that number; `None` from [`PoolBlocks::len`] on.
    pub fn get(&self, index: u128) -> Option<IpBlock> {
        let mut left = index;
        for (first, count) in &self.spans {
            if left < *count {
                let number = (first + left) * u128::from(self.size.addresses());
                return Some(IpBlock::containing(address(self.family, number)?, self.size));
            }
            left -= count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(ips: &[&str], size: u64) -> PoolBlocks {
        let listed: Vec<crate::IpRange> = ips.iter().map(|text| text.parse().unwrap()).collect();
        PoolBlocks::of(&IpRanges::new(listed[0].family(), &listed, &[]), size.try_into().unwrap())
    }

    fn all(blocks: &PoolBlocks) -> Vec<String> {
        (0..blocks.len()).map(|index| blocks.get(index).unwrap().to_string()).collect()
    }

    #[test]
    fn ranges_that_share_a_block_have_it_once() {
        let pool = blocks(&["10.0.0.9-10.0.0.10", "10.0.0.1-10.0.0.5", "10.0.0.12"], 4);
        assert_eq!(all(&pool), ["10.0.0.0-30", "10.0.0.4-30", "10.0.0.8-30", "10.0.0.12-30"]);
        assert_eq!(pool.get(4), None);
        assert_eq!(all(&blocks(&["10.0.0.255-10.0.1.0"], 256)), ["10.0.0.0-24", "10.0.1.0-24"]);
        assert_eq!(all(&blocks(&["255.255.255.255"], 64)), ["255.255.255.192-26"]);
    }

    #[test]
    fn blocks_of_any_size_are_compared() {
        let pool = blocks(&["10.0.0.9-10.0.0.10", "10.0.0.64"], 4);
        for (name, expected) in [
            ("10.0.0.8-30", true),
            ("10.0.0.12-30", false),
            ("10.0.0.0-24", true),
            ("10.0.0.11-32", true),
            ("10.0.0.65-32", true),
            ("10.0.0.68-32", false),
            ("0-0-0-0-0-0-a00-0-120", false),
        ] {
            assert_eq!(pool.overlaps(name.parse().unwrap()), expected, "{name}");
        }
    }

    #[test]
    fn large_ranges_are_not_listed() {
        let everything = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let pool = blocks(&[everything], 256);
        assert_eq!(pool.len(), 1 << 120);
        assert_eq!(pool.get((1 << 120) - 1).unwrap().cidr(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120");
        assert_eq!(blocks(&[everything], 1).len(), u128::MAX);
    }
}
