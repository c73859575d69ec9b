//! Where the fields of those structures of `linux/ethtool.h` are that have to be looked into.

/// `struct ethtool_gfeatures` and `struct ethtool_sfeatures`: a count, and for each 32 features a block of words.
pub(crate) mod features {
    use crate::socket::{number, put};

    pub(crate) const COUNT: usize = 4;
    /// More blocks than any kernel has.
    pub(crate) const MOST: u32 = 8;

    const BLOCKS: usize = 8;
    /// Available, requested, active, never changed.
    const BLOCK: usize = 16;

    /// The length of an answer with so many blocks.
    pub(crate) const fn length(blocks: u32) -> usize {
        BLOCKS + BLOCK * blocks as usize
    }

    fn blocks(answer: &[u8]) -> impl Iterator<Item = (u32, u32)> {
        let blocks = answer.get(BLOCKS..).unwrap_or_default().chunks_exact(BLOCK);
        blocks.take(number(answer, COUNT) as usize).map(|block| (number(block, 0), number(block, 4)))
    }

    /// The features that are requested.
    pub(crate) fn requested(answer: &[u8]) -> Vec<u8> {
        blocks(answer).flat_map(|(_, requested)| requested.to_ne_bytes()).collect()
    }

    /// The structure that makes those features requested that were; `None` if they are, or the kernel has others by now.
    pub(crate) fn change(now: &[u8], former: &[u8]) -> Option<Vec<u8>> {
        let blocks: Vec<_> = blocks(now).collect();
        if former.len() != 4 * blocks.len() || requested(now) == former {
            return None;
        }
        let mut bytes = vec![0; BLOCKS + 8 * blocks.len()];
        put(&mut bytes, COUNT, number(now, COUNT));
        for (at, (available, requested)) in blocks.into_iter().enumerate() {
            let former = number(former, 4 * at);
            put(&mut bytes, BLOCKS + 8 * at, (requested ^ former) & available);
            put(&mut bytes, BLOCKS + 8 * at + 4, former);
        }
        Some(bytes)
    }
}

/// `struct ethtool_rxfh`: the sizes of a table (in words) and of a key (in bytes), and behind them both.
pub(crate) mod spread {
    use crate::socket::put;

    pub(crate) const TABLE: usize = 8;
    pub(crate) const KEY: usize = 12;
    pub(crate) const DATA: usize = 24;

    pub(crate) const fn length(table: u32, key: u32) -> usize {
        DATA + 4 * table as usize + key as usize
    }

    /// The same with a table of size zero: the driver makes its own.
    pub(crate) fn without_a_table(bytes: &[u8]) -> Vec<u8> {
        let table = 4 * crate::socket::number(bytes, TABLE) as usize;
        let key = bytes.get(DATA + table..).unwrap_or_default();
        let mut bytes = [&bytes[..DATA], key].concat();
        put(&mut bytes, TABLE, 0);
        bytes
    }
}

/// `struct ethtool_rxnfc`: a rule for a flow, or how many there are and where.
pub(crate) mod rules {
    /// `fs.location`.
    pub(crate) const LOCATION: usize = 176;
    pub(crate) const COUNT: usize = 184;
    pub(crate) const LOCATIONS: usize = 188;

    pub(crate) fn bytes(locations: &[u32]) -> Vec<u8> {
        locations.iter().flat_map(|location| location.to_ne_bytes()).collect()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Vec<u32> {
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        rules::bytes(words)
    }

    #[test]
    fn features_that_differ_and_can_be_had_are_changed() {
        let now = words(&[0x3a, 2, 0b1111, 0b0011, 0b0011, 0, 0b1, 0b1, 0, 0, 9, 9, 9, 9]);
        assert_eq!(features::requested(&now), words(&[0b0011, 0b1]));
        // The fifth cannot be had.
        let change = features::change(&now, &words(&[0b1_0110, 0b1]));
        assert_eq!(change, Some(words(&[0, 2, 0b0101, 0b1_0110, 0, 0b1])));
        assert_eq!(features::change(&now, &words(&[0b0011, 0b1])), None, "as it was");
        assert_eq!(features::change(&now, &words(&[0])), None, "another kernel's");
    }

    #[test]
    fn a_key_without_its_table() {
        let whole = [words(&[0x46, 0, 2, 3, 1, 0, 7, 8]), vec![1, 2, 3]].concat();
        assert_eq!(whole.len(), spread::length(2, 3));
        assert_eq!(spread::without_a_table(&whole), [words(&[0x46, 0, 0, 3, 1, 0]), vec![1, 2, 3]].concat());
    }
}
