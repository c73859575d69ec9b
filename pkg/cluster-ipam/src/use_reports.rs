//! Which blocks a node reports to the cluster, and when. Does no I/O.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use ipam::IpBlock;

use crate::plan::BlockUse;

/// The shortest time between two reports of a block.
const SHORTEST: Duration = Duration::from_secs(30);
/// The time after which a small change is reported.
const LONGEST: Duration = Duration::from_secs(600);

/// What was reported of each block.
#[derive(Debug, Default)]
pub(crate) struct UseReports {
    reported: BTreeMap<IpBlock, (Instant, Vec<IpAddr>)>,
}

impl UseReports {
    /// Returns the blocks whose use is to be reported: after a large change soon, after a small one later.
    pub(crate) fn due<'a>(&self, blocks: &'a [BlockUse], now: Instant) -> Vec<&'a BlockUse> {
        let is_due = |used: &&BlockUse| {
            let Some((at, before)) = self.reported.get(&used.block) else { return !used.claimed.is_empty() };
            let age = now.saturating_duration_since(*at);
            let large = usize::from(used.block.size().addresses()).div_ceil(4);
            let is_large = used.claimed.len().abs_diff(before.len()) >= large
                || used.claimed.is_empty() != before.is_empty();
            *before != used.claimed && (age >= LONGEST || (is_large && age >= SHORTEST))
        };
        blocks.iter().filter(is_due).collect()
    }

    /// The use of a block was reported, or an attempt failed.
    pub(crate) fn reported(&mut self, used: &BlockUse, now: Instant) {
        self.reported.insert(used.block, (now, used.claimed.clone()));
    }

    /// Forgets the blocks that the node does not have any more.
    pub(crate) fn retain(&mut self, blocks: &[BlockUse]) {
        self.reported.retain(|block, _| blocks.iter().any(|used| used.block == *block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(claimed: usize) -> BlockUse {
        let block: IpBlock = "10.0.0.0-28".parse().unwrap();
        BlockUse { block, claimed: block.addresses().take(claimed).collect(), idle: Duration::ZERO }
    }

    fn is_due(before: usize, after: usize, age: Duration) -> bool {
        let mut reports = UseReports::default();
        let now = Instant::now();
        reports.reported(&used(before), now);
        !reports.due(&[used(after)], now + age).is_empty()
    }

    #[test]
    fn large_changes_are_reported_sooner_than_small_ones() {
        let second = Duration::from_secs(1);
        assert!(!UseReports::default().due(&[used(1)], Instant::now()).is_empty(), "the first use");
        assert!(UseReports::default().due(&[used(0)], Instant::now()).is_empty());
        for (before, after, age, expected) in [
            (4, 8, SHORTEST, true),
            (4, 8, SHORTEST - second, false),
            (4, 5, LONGEST, true),
            (4, 5, LONGEST - second, false),
            (1, 0, SHORTEST, true),
            (4, 4, 10 * LONGEST, false),
            (8, 4, SHORTEST, true),
            (8, 5, SHORTEST, false),
            (0, 1, SHORTEST, true),
            (0, 1, SHORTEST - second, false),
        ] {
            assert_eq!(is_due(before, after, age), expected, "{before} {after} {age:?}");
        }
    }

    #[test]
    fn a_block_with_other_addresses_in_use_is_reported() {
        let mut reports = UseReports::default();
        let now = Instant::now();
        let (before, mut after) = (used(2), used(3));
        after.claimed.remove(0);
        reports.reported(&before, now);
        let other = BlockUse { block: "10.0.0.16-28".parse().unwrap(), ..used(1) };
        let blocks = [after, other];
        assert_eq!(reports.due(&blocks, now + SHORTEST).len(), 1, "the other one is new");
        assert_eq!(reports.due(&blocks, now + LONGEST).len(), 2);
        reports.retain(&blocks[..1]);
        assert_eq!(reports.due(&blocks[..1], now + SHORTEST).len(), 0, "it was reported");
    }

    #[test]
    fn a_block_that_is_leased_again_is_reported_again() {
        let mut reports = UseReports::default();
        let now = Instant::now();
        reports.reported(&used(4), now);
        reports.retain(&[]);
        assert_eq!(reports.due(&[used(4)], now).len(), 1);
    }
}
