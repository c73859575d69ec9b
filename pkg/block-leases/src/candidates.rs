//! The order in which a node tries the blocks of a pool.

use std::hash::{DefaultHasher, Hash, Hasher};

use ipam::{IpBlock, PoolBlocks};

/// Returns all blocks of a pool once, in an order that differs from node to node, so that two nodes rarely try the same one.
pub fn candidates<'a>(blocks: &'a PoolBlocks, node_uid: &str) -> impl Iterator<Item = IpBlock> + use<'a> {
    let count = blocks.len();
    let mut hasher = DefaultHasher::new();
    node_uid.hash(&mut hasher);
    let seed = u128::from(hasher.finish());
    let mut index = seed.checked_rem(count).unwrap_or(0);
    // With a step that has no divisor in common with their number, all blocks are met.
    let step = (1..=count).map(|more| ((seed >> 32) + more) % count).find(|step| divisor(*step, count) == 1);
    let step = step.unwrap_or(0);
    let mut left = count;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let block = blocks.get(index);
        index = if index >= count - step { index - (count - step) } else { index + step };
        block
    })
}

/// Returns the greatest common divisor.
fn divisor(a: u128, b: u128) -> u128 {
    if a == 0 { b } else { divisor(b % a, a) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ipam::{IpFamily, IpRanges};

    use super::*;

    fn blocks(ips: &str, size: u64) -> PoolBlocks {
        PoolBlocks::of(&IpRanges::new(IpFamily::V4, &[ips.parse().unwrap()], &[]), size.try_into().unwrap())
    }

    #[test]
    fn each_block_is_tried_once() {
        for (ips, size) in [("10.0.0.0-10.0.0.3", 4), ("10.0.0.1-10.0.0.9", 4), ("10.0.0.0-10.0.3.255", 8)] {
            let pool = blocks(ips, size);
            for node in 0..50 {
                let tried: Vec<_> = candidates(&pool, &format!("uid-{node}")).collect();
                let distinct: BTreeSet<_> = tried.iter().collect();
                assert_eq!(
                    (tried.len(), distinct.len()),
                    (pool.len() as usize, pool.len() as usize),
                    "{ips}"
                );
            }
        }
    }

    #[test]
    fn nodes_rarely_begin_with_the_same_block() {
        let pool = blocks("10.0.0.0-10.0.255.255", 64);
        let first: BTreeSet<_> =
            (0..256).map(|node| candidates(&pool, &format!("uid-{node}")).next().unwrap()).collect();
        assert!(first.len() > 200, "{}", first.len());
    }

    #[test]
    fn a_huge_pool_is_not_listed() {
        let all = "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap();
        let pool = PoolBlocks::of(&IpRanges::new(IpFamily::V6, &[all], &[]), 1.try_into().unwrap());
        assert_eq!(candidates(&pool, "uid").take(100).collect::<BTreeSet<_>>().len(), 100);
    }
}
