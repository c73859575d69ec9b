//! So many at once, and after them so many per second.

use std::time::{Duration, Instant};

/// How often something may happen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// So many at once.
    pub(super) burst: u32,
    /// Each of them comes back after so long.
    pub(super) each: Duration,
}

/// What is left of a rate.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// When all of the burst will be there again.
    full: Instant,
}

impl Bucket {
    /// One of which nothing was taken.
    pub(super) fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, full: now }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let after = self.full.max(now) + self.rate.each;
        let is_there = after <= now + self.rate.each * self.rate.burst;
        if is_there {
            self.full = after;
        }
        is_there
    }

    /// When nothing will be missing: the later, the more was taken of late.
    pub(super) fn full_at(&self) -> Instant {
        self.full
    }

    /// Whether nothing is missing.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.full <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        let now = Instant::now();
        let mut bucket = Bucket::full(Rate { burst: 3, each: Duration::from_secs(10) }, now);
        let mut taken = |seconds| (0..9).filter(|_| bucket.take(now + Duration::from_secs(seconds))).count();
        assert_eq!([taken(0), taken(9), taken(10), taken(31), taken(1000)], [3, 0, 1, 2, 3]);
        assert!(!bucket.is_full(now + Duration::from_secs(1029)));
        assert!(bucket.is_full(now + Duration::from_secs(1030)));
    }
}
