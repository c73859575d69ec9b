//! A token bucket.

use std::time::{Duration, Instant};

/// The limit of a token bucket.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    /// The capacity: the number of tokens that can be taken at once.
    pub burst: u32,
    /// The interval after which one token is added.
    pub each: Duration,
}

/// A token bucket, which is full at the beginning. It stores only the time at which it will be full.
#[derive(Debug)]
pub struct TokenBucket {
    rate: RateLimit,
    /// When the bucket will be full.
    full: Instant,
}

impl TokenBucket {
    /// Returns a full bucket.
    pub fn full(rate: RateLimit, now: Instant) -> Self {
        Self { rate, full: now }
    }

    /// Whether the bucket contains a token.
    pub fn has_one(&self, now: Instant) -> bool {
        self.after_one(now) <= now + self.rate.each * self.rate.burst
    }

    /// Takes a token. Returns false if the bucket is empty.
    pub fn take(&mut self, now: Instant) -> bool {
        let is_there = self.has_one(now);
        if is_there {
            self.full = self.after_one(now);
        }
        is_there
    }

    /// Returns when the bucket will be full. The more tokens were taken recently, the later this is.
    pub fn full_at(&self) -> Instant {
        self.full
    }

    fn after_one(&self, now: Instant) -> Instant {
        self.full.max(now) + self.rate.each
    }

    /// Whether the bucket is full.
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

    #[test]
    fn looking_takes_no_token_and_the_most_used_bucket_is_full_last() {
        let (now, rate) = (Instant::now(), RateLimit { burst: 2, each: Duration::from_secs(10) });
        let (mut bucket, unused) = (TokenBucket::full(rate, now), TokenBucket::full(rate, now));
        let looks = |bucket: &TokenBucket| [bucket.has_one(now), bucket.has_one(now), bucket.has_one(now)];
        assert_eq!(looks(&bucket), [true; 3]);
        assert!(bucket.take(now) && bucket.take(now));
        assert_eq!(looks(&bucket), [false; 3]);
        assert!(!bucket.take(now), "a refusal costs nothing");
        assert_eq!(bucket.full_at(), now + Duration::from_secs(20));
        assert!(unused.full_at() < bucket.full_at() && unused.is_full(now));
        assert!(
            !bucket.has_one(now + Duration::from_secs(9)) && bucket.has_one(now + Duration::from_secs(10))
        );
    }
}
