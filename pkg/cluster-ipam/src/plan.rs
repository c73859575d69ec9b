//! Which blocks a node should lease and release. Does no I/O.

use std::time::Duration;

use ipam::{BlockSize, IpBlock, IpRanges, PoolName};

/// A block of which no address was in use for so long is released, if the pool has enough others.
pub(crate) const IDLE: Duration = Duration::from_secs(5 * 60);
/// A block that no pool contains any more is released after this time. It may have an address that is reserved for the pod that
/// waits for it.
const NO_POOL_IDLE: Duration = Duration::from_secs(2);
/// The same if it has one address.
const SINGLE_IDLE: Duration = Duration::from_secs(10);
/// After this time, the last block of a pool is released as well.
pub(crate) const LONG_IDLE: Duration = Duration::from_secs(60 * 60);
/// The number of blocks that are leased at once for one pool.
const MOST_AT_ONCE: usize = 16;

/// A pool, and how many ADDs wait for an address of it.
#[derive(Debug, Clone)]
pub(crate) struct PoolNeed<'a> {
    /// The name of the pool.
    pub(crate) name: &'a PoolName,
    /// Its addresses.
    pub(crate) ranges: &'a IpRanges,
    /// The size of its blocks.
    pub(crate) size: BlockSize,
    /// The number of ADDs that wait.
    pub(crate) waiting: usize,
}

/// A block of the node.
#[derive(Debug, Clone)]
pub(crate) struct BlockUse {
    /// The block.
    pub(crate) block: IpBlock,
    /// Its addresses that are in use.
    pub(crate) claimed: Vec<std::net::IpAddr>,
    /// For how long none was.
    pub(crate) idle: Duration,
}

/// A change of the blocks of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedChange {
    /// Lease this number of blocks of a pool.
    Lease(PoolName, usize),
    /// Release this block.
    Release(IpBlock),
}

/// Returns what to change.
///
/// A pool that is in use has a reserve of a quarter of a block, so that an ADD seldom waits. One without a block gets one when
/// an ADD waits.
pub(crate) fn plan(pools: &[PoolNeed<'_>], blocks: &[BlockUse]) -> Vec<PlannedChange> {
    let mut changes = Vec::new();
    for pool in pools {
        let size = usize::from(pool.size.addresses());
        let free = free(pool, blocks);
        let has_block = blocks.iter().any(|used| used.block.count_in(pool.ranges) > 0);
        let wanted = if pool.waiting > 0 || has_block { pool.waiting + reserve(pool) } else { 0 };
        let missing = wanted.saturating_sub(free).div_ceil(size).min(MOST_AT_ONCE);
        if missing > 0 {
            changes.push(PlannedChange::Lease(pool.name.clone(), missing));
        }
    }
    // One at a time: the next plan sees what is left.
    let surplus = blocks.iter().find(|used| used.claimed.is_empty() && is_surplus(used, pools, blocks));
    changes.extend(surplus.map(|used| PlannedChange::Release(used.block)));
    changes
}

fn is_surplus(used: &BlockUse, pools: &[PoolNeed<'_>], blocks: &[BlockUse]) -> bool {
    let mut containing = pools.iter().filter(|pool| used.block.count_in(pool.ranges) > 0).peekable();
    if containing.peek().is_none() {
        return used.idle >= NO_POOL_IDLE;
    }
    containing.all(|pool| {
        let without = free(pool, blocks).saturating_sub(used.block.count_in(pool.ranges));
        // More than is leased ahead, else it would be leased again at once.
        let is_enough = without >= 2 * reserve(pool) + pool.waiting;
        let is_unused =
            blocks.iter().all(|other| other.claimed.is_empty() || other.block.count_in(pool.ranges) == 0);
        let idle = if pool.size.addresses() == 1 { SINGLE_IDLE } else { IDLE };
        (used.idle >= LONG_IDLE && is_unused && pool.waiting == 0) || (used.idle >= idle && is_enough)
    })
}

fn free(pool: &PoolNeed<'_>, blocks: &[BlockUse]) -> usize {
    let free = |used: &BlockUse| {
        let claimed = used.claimed.iter().filter(|address| pool.ranges.contains(**address)).count();
        used.block.count_in(pool.ranges).saturating_sub(claimed)
    };
    blocks.iter().map(free).sum()
}

/// Returns the number of addresses that are leased ahead: none if each has a block of its own.
fn reserve(pool: &PoolNeed<'_>) -> usize {
    match pool.size.addresses() {
        1 => 0,
        size => usize::from(size).div_ceil(4),
    }
}

#[cfg(test)]
mod tests {
    use ipam::IpFamily;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Fixture {
        name: PoolName,
        ranges: IpRanges,
    }

    impl Fixture {
        fn of(ips: &str) -> Self {
            let ranges = IpRanges::new(IpFamily::V4, &[ips.parse().unwrap()], &[]);
            Self { name: "p".parse().unwrap(), ranges }
        }

        fn plan(&self, waiting: usize, blocks: &[BlockUse]) -> Vec<PlannedChange> {
            let size = 16.try_into().unwrap();
            plan(&[PoolNeed { name: &self.name, ranges: &self.ranges, size, waiting }], blocks)
        }

        fn lease(&self, count: usize) -> Vec<PlannedChange> {
            vec![PlannedChange::Lease(self.name.clone(), count)]
        }
    }

    fn used(name: &str, claimed: usize, idle: Duration) -> BlockUse {
        let block: IpBlock = name.parse().unwrap();
        BlockUse { block, claimed: block.addresses().take(claimed).collect(), idle }
    }

    #[test]
    fn a_pool_gets_its_first_block_when_an_add_waits() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        assert_eq!(pool.plan(0, &[]), []);
        assert_eq!(pool.plan(1, &[]), pool.lease(1));
        assert_eq!(pool.plan(100, &[]), pool.lease(7));
        assert_eq!(pool.plan(100_000, &[]), pool.lease(MOST_AT_ONCE));
    }

    #[test]
    fn a_block_is_leased_before_the_last_address_is_used() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        let block = |claimed| [used("10.0.0.16-28", claimed, Duration::ZERO)];
        assert_eq!(pool.plan(0, &block(12)), []);
        assert_eq!(pool.plan(0, &block(13)), pool.lease(1));
        // Not more is free than what the pool has of the block.
        let pool = Fixture::of("10.0.0.24-10.0.0.255");
        assert_eq!(pool.plan(0, &[used("10.0.0.16-28", 0, Duration::ZERO)]), []);
        assert_eq!(pool.plan(0, &[used("10.0.0.16-28", 13, Duration::ZERO)]), pool.lease(1));
    }

    #[test]
    fn idle_blocks_are_released_one_by_one() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        let blocks = |first, second| [used("10.0.0.16-28", 0, first), used("10.0.0.32-28", 0, second)];
        let release = |name: &str| vec![PlannedChange::Release(name.parse().unwrap())];
        assert_eq!(pool.plan(0, &blocks(SECOND, SECOND)), []);
        assert_eq!(pool.plan(0, &blocks(SECOND, IDLE)), release("10.0.0.32-28"));
        assert_eq!(pool.plan(0, &blocks(IDLE, IDLE)), release("10.0.0.16-28"));
        assert_eq!(pool.plan(0, &blocks(IDLE, IDLE)[..1]), [], "the last block stays for longer");
        assert_eq!(pool.plan(0, &blocks(LONG_IDLE, IDLE)[..1]), release("10.0.0.16-28"));
    }

    #[test]
    fn a_block_that_no_pool_contains_is_released_soon() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        let mut blocks = [used("10.0.1.0-28", 0, SECOND), used("10.0.1.16-28", 1, LONG_IDLE)];
        assert_eq!(pool.plan(0, &blocks), []);
        blocks[0].idle = NO_POOL_IDLE;
        assert_eq!(pool.plan(0, &blocks), [PlannedChange::Release("10.0.1.0-28".parse().unwrap())]);
    }

    #[test]
    fn nothing_is_leased_ahead_if_blocks_have_one_address() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        let plan = |waiting, blocks: &[BlockUse]| {
            let size = 1.try_into().unwrap();
            plan(&[PoolNeed { name: &pool.name, ranges: &pool.ranges, size, waiting }], blocks)
        };
        assert_eq!(plan(3, &[]), pool.lease(3));
        let block = |claimed, idle| [used("10.0.0.16-32", claimed, idle)];
        assert_eq!(plan(0, &block(1, LONG_IDLE)), []);
        assert_eq!(plan(0, &block(0, SECOND)), []);
        assert_eq!(
            plan(0, &block(0, SINGLE_IDLE)),
            [PlannedChange::Release("10.0.0.16-32".parse().unwrap())]
        );
        assert_eq!(plan(1, &block(0, SINGLE_IDLE)), []);
    }

    #[test]
    fn each_pool_gets_its_blocks_and_shares_those_that_contain_its_addresses() {
        let (low, high) = (Fixture::of("10.0.0.0-10.0.0.23"), Fixture::of("10.0.0.24-10.0.0.255"));
        let name: PoolName = "q".parse().unwrap();
        let plan = |low_waiting, high_waiting, blocks: &[BlockUse]| {
            let need = |name, fixture: &Fixture, waiting| {
                let (ranges, size) = (fixture.ranges.clone(), 16.try_into().unwrap());
                (name, ranges, size, waiting)
            };
            let both = [need(&low.name, &low, low_waiting), need(&name, &high, high_waiting)];
            let needs: Vec<_> = both
                .iter()
                .map(|(name, ranges, size, waiting)| PoolNeed {
                    name,
                    ranges,
                    size: *size,
                    waiting: *waiting,
                })
                .collect();
            super::plan(&needs, blocks)
        };
        assert_eq!(plan(1, 1, &[]), [low.lease(1), vec![PlannedChange::Lease(name.clone(), 1)]].concat());
        // Half of it belongs to each of them.
        let shared = |claimed, idle| [used("10.0.0.16-28", claimed, idle)];
        assert_eq!(plan(0, 0, &shared(0, IDLE)), []);
        assert_eq!(plan(0, 0, &shared(8, Duration::ZERO)), low.lease(1));
        assert_eq!(plan(5, 0, &shared(0, Duration::ZERO)), low.lease(1));
        // It stays as long as one of them needs it.
        assert_eq!(plan(0, 1, &shared(0, LONG_IDLE)), []);
        assert_eq!(
            plan(0, 0, &shared(0, LONG_IDLE)),
            [PlannedChange::Release("10.0.0.16-28".parse().unwrap())]
        );
        let mut blocks = shared(0, LONG_IDLE).to_vec();
        blocks.push(used("10.0.0.32-28", 9, Duration::ZERO));
        assert_eq!(plan(0, 0, &blocks), [], "the other pool is in use, and would not have enough without it");
        blocks[1] = used("10.0.0.32-28", 8, Duration::ZERO);
        assert_eq!(plan(0, 0, &blocks), [PlannedChange::Release("10.0.0.16-28".parse().unwrap())]);
    }

    #[test]
    fn what_is_leased_ahead_is_not_released() {
        let pool = Fixture::of("10.0.0.0-10.0.0.255");
        for claimed in 0..=16 {
            let mut blocks =
                vec![used("10.0.0.16-28", claimed, Duration::ZERO), used("10.0.0.32-28", 0, LONG_IDLE)];
            let planned = pool.plan(0, &blocks);
            if let [PlannedChange::Release(block)] = planned[..] {
                blocks.retain(|used| used.block != block);
                assert_eq!(pool.plan(0, &blocks), [], "{claimed}");
            }
        }
    }
}
