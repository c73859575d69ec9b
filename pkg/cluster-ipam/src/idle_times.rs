//! For how long blocks of the node have had no address in use.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ipam::IpBlock;

/// Since when no address of a block has been in use.
#[derive(Debug, Default)]
pub(crate) struct IdleTimes {
    since: BTreeMap<IpBlock, Instant>,
}

impl IdleTimes {
    /// Returns for how long no address of a block has been in use: zero for a new block, too.
    pub(crate) fn update(&mut self, block: IpBlock, is_used: bool, now: Instant) -> Duration {
        let since = self.since.entry(block).or_insert(now);
        if is_used {
            *since = now;
        }
        now.saturating_duration_since(*since)
    }

    /// Forgets a block: if the node gets it again, it is new.
    pub(crate) fn forget(&mut self, block: IpBlock) {
        self.since.remove(&block);
    }

    /// Forgets all blocks but these.
    pub(crate) fn retain(&mut self, is_of_node: impl Fn(IpBlock) -> bool) {
        self.since.retain(|block, _| is_of_node(*block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_idle_since_its_last_address_was_released() {
        let (mut times, start) = (IdleTimes::default(), Instant::now());
        let [block, other] = ["10.0.0.0-28", "10.0.0.16-28"].map(|text| text.parse::<IpBlock>().unwrap());
        let mut idle = |is_used, seconds| {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(times.update(other, true, now), Duration::ZERO);
            times.update(block, is_used, now).as_secs()
        };
        assert_eq!([idle(false, 0), idle(false, 5), idle(true, 60), idle(true, 90)], [0, 5, 0, 0]);
        assert_eq!([idle(false, 100), idle(false, 400)], [10, 310]);
        let at = |seconds| start + Duration::from_secs(seconds);
        times.forget(block);
        assert_eq!(times.update(block, false, at(500)), Duration::ZERO, "it is new");
        times.retain(|kept| kept == other);
        assert_eq!(times.update(block, false, at(600)), Duration::ZERO, "it was released meanwhile");
        times.retain(|kept| kept == block);
        assert_eq!(times.update(block, false, at(700)), Duration::from_secs(100));
    }
}
