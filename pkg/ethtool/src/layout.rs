//! Offsets of fields in those structures of `linux/ethtool.h` that are read or changed in part.

/// `struct ethtool_gfeatures` and `struct ethtool_sfeatures`: a count, and one block of words per 32 features.
pub(crate) mod features {
    use crate::socket::{number, put};

    pub(crate) const COUNT: usize = 4;
    /// An upper limit: no kernel has this many blocks.
    pub(crate) const MAX_BLOCKS: u32 = 8;

    const BLOCKS: usize = 8;
    /// The words `available`, `requested`, `active` and `never_changed`.
    const BLOCK: usize = 16;

    /// Returns the length of a reply with `blocks` blocks, in bytes.
    pub(crate) const fn length(blocks: u32) -> usize {
        BLOCKS + BLOCK * blocks as usize
    }

    fn blocks(reply: &[u8]) -> impl Iterator<Item = (u32, u32)> {
        let blocks = reply.get(BLOCKS..).unwrap_or_default().chunks_exact(BLOCK);
        blocks.take(number(reply, COUNT) as usize).map(|block| (number(block, 0), number(block, 4)))
    }

    /// Returns the `requested` words of a reply, in native byte order.
    pub(crate) fn requested(reply: &[u8]) -> Vec<u8> {
        blocks(reply).flat_map(|(_, requested)| requested.to_ne_bytes()).collect()
    }

    /// Returns the `ethtool_sfeatures` that requests the `former` features again. `None` if they are requested already, or if
    /// the kernel has another number of blocks.
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

/// `struct ethtool_rxfh`: the sizes of the indirection table (in words) and of the hash key (in bytes), then table and key.
pub(crate) mod rss {
    use crate::socket::{number, put};

    pub(crate) const CONTEXT: usize = 4;
    pub(crate) const TABLE: usize = 8;
    pub(crate) const KEY: usize = 12;
    pub(crate) const DATA: usize = 24;

    pub(crate) const fn length(table: u32, key: u32) -> usize {
        DATA + 4 * table as usize + key as usize
    }

    /// `hfunc`, and its value for "no change".
    const FUNCTION: usize = 16;
    const SAME_FUNCTION: u8 = 0;
    /// `input_xfrm`, since Linux 6.8: what is done to a packet's fields before they are hashed, as for a symmetric hash. An
    /// older kernel has 0 here and demands it.
    const INPUT: usize = 17;
    /// `ETH_RXFH_INDIR_NO_CHANGE`.
    const SAME_TABLE: u32 = u32::MAX;

    fn parts(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
        let (head, rest) = bytes.split_at_checked(DATA).unwrap_or((bytes, &[]));
        let table = 4 * number(bytes, TABLE) as usize;
        let (table, key) = rest.split_at_checked(table).unwrap_or((rest, &[]));
        (head, table, key)
    }

    /// Returns the bytes of the indirection table.
    pub(crate) fn table(bytes: &[u8]) -> &[u8] {
        parts(bytes).1
    }

    /// Returns a request for the driver's default table, which leaves key and hash function unchanged.
    pub(crate) fn default_table(former: &[u8]) -> Vec<u8> {
        let mut bytes = parts(former).0.to_vec();
        put(&mut bytes, TABLE, 0);
        put(&mut bytes, KEY, 0);
        bytes[FUNCTION] = SAME_FUNCTION;
        bytes
    }

    /// Returns a request that restores table, key and hash function. It contains only those that differ, because some drivers
    /// reject every key, even the current one. `None` if nothing differs.
    pub(crate) fn change(now: &[u8], former: &[u8]) -> Option<Vec<u8>> {
        let (now_head, now_table, now_key) = parts(now);
        let (head, table, key) = parts(former);
        let same_function = now_head.get(FUNCTION) == head.get(FUNCTION);
        let same_input = now_head.get(INPUT) == head.get(INPUT);
        if (now_table, now_key, same_function, same_input) == (table, key, true, true) {
            return None;
        }
        let mut bytes = head.to_vec();
        if same_function {
            bytes[FUNCTION] = SAME_FUNCTION;
        }
        if now_table == table {
            put(&mut bytes, TABLE, SAME_TABLE);
        } else {
            bytes.extend_from_slice(table);
        }
        if now_key == key {
            put(&mut bytes, KEY, 0);
        } else {
            bytes.extend_from_slice(key);
        }
        Some(bytes)
    }
}

/// `struct ethtool_rxnfc`: one flow rule, or the number of flow rules and their locations.
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
    fn available_features_that_differ_are_changed() {
        let now = words(&[0x3a, 2, 0b1111, 0b0011, 0b0011, 0, 0b1, 0b1, 0, 0, 9, 9, 9, 9]);
        assert_eq!(features::requested(&now), words(&[0b0011, 0b1]));
        // The fifth feature is not available.
        let change = features::change(&now, &words(&[0b1_0110, 0b1]));
        assert_eq!(change, Some(words(&[0, 2, 0b0101, 0b1_0110, 0, 0b1])));
        assert_eq!(features::change(&now, &words(&[0b0011, 0b1])), None, "unchanged");
        assert_eq!(features::change(&now, &words(&[0])), None, "another kernel's");
    }

    #[test]
    fn only_what_differs_of_receive_side_scaling_is_set() {
        let whole = |table: &[u32], key: &[u8], function: u32| {
            let [table_size, key_size] = [table.len(), key.len()].map(|size| u32::try_from(size).unwrap());
            let sizes = [0x46, 0, table_size, key_size, function, 0];
            [words(&sizes), words(table), key.to_vec()].concat()
        };
        let head = |table: u32, key: u32, function: u32| words(&[0x46, 0, table, key, function, 0]);
        let former = whole(&[0, 1], &[1, 2, 3], 1);
        assert_eq!(former.len(), rss::length(2, 3));
        assert_eq!(rss::change(&former, &former), None);
        let change = |now: Vec<u8>| rss::change(&now, &former).unwrap();
        assert_eq!(change(whole(&[0, 0], &[1, 2, 3], 1)), [head(2, 0, 0), words(&[0, 1])].concat());
        assert_eq!(change(whole(&[0, 1], &[9, 9, 9], 1)), [head(u32::MAX, 3, 0), vec![1, 2, 3]].concat());
        assert_eq!(change(whole(&[0, 1], &[1, 2, 3], 2)), head(u32::MAX, 0, 1));
        assert_eq!(change(whole(&[0, 1, 2, 3], &[9, 2, 3], 2)), former, "all of it");
        let symmetric = 1 << 8 | 1;
        assert_eq!(change(whole(&[0, 1], &[1, 2, 3], symmetric)), head(u32::MAX, 0, 0), "of the input");
        assert_eq!(rss::default_table(&former), head(0, 0, 0));
    }
}
