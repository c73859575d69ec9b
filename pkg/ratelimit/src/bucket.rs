//! A bucket: what is taken from it comes back with time.

use std::time::{Duration, Instant};

/// How often something may happen.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    /// So many at once.
    pub burst: u32,
    /// Each of them comes back after so long.
    pub each: Duration,
}

/// What is left of a rate.
#[derive(Debug)]
pub struct TokenBucket {
    rate: RateLimit,
    /// When all of the burst will be there again.
    full: Instant,
}

impl TokenBucket {
    /// One of which nothing was taken.
    pub fn full(rate: RateLimit, now: Instant) -> Self {
        Self { rate, full: now }
    }

    /// Whether there is one.
    pub fn has_one(&self, now: Instant) -> bool {
        self.after_one(now) <= now + self.rate.each * self.rate.burst
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_there = self.has_one(now);
        if is_there {
            self.full = self.after_one(now);
        }
        is_there
    }

    /// When nothing will be missing: the later, the more was taken of late.
    pub fn full_at(&self) -> Instant {
        self.full
    }

    fn after_one(&self, now: Instant) -> Instant {
        self.full.max(now) + self.rate.each
    }

    /// Whether nothing is missing.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_at_a_time() {
        let now = Instant::now();
        let mut bucket = TokenBucket::full(RateLimit { burst: 3, each: Duration::from_secs(10) }, now);
        let mut taken = |seconds| (0..9).filter(|_| bucket.take(now + Duration::from_secs(seconds))).count();
        assert_eq!([taken(0), taken(9), taken(10), taken(31), taken(1000)], [3, 0, 1, 2, 3]);
        assert!(!bucket.is_full(now + Duration::from_secs(1029)));
        assert!(bucket.is_full(now + Duration::from_secs(1030)));
    }
}
