//! Rate limits of token reviews, because unauthenticated clients can send any number of tokens.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket};

/// Reviews for one source. The page and its files have several paths, each of which takes a review, and several users may be
/// behind one proxy. A Prometheus server with an invalid token takes at most one review in ten seconds.
const OF_SOURCE: RateLimit = RateLimit { burst: 30, each: Duration::from_secs(5) };

/// Reviews for all unknown tokens together, enough for ten sources. The rate is low, so that the API server is not overloaded
/// if every node of a large cluster uses it up.
const OF_ALL: RateLimit = RateLimit { burst: 60, each: Duration::from_millis(500) };

/// The remaining reviews of each limit.
#[derive(Debug)]
pub(super) struct Rates(Mutex<Remaining>);

#[derive(Debug)]
struct Remaining {
    unknown: TokenBucket,
    sources: HashMap<IpAddr, TokenBucket>,
    /// For tokens that were accepted recently. Unknown tokens cannot use it up.
    known: TokenBucket,
}

impl Rates {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let all = || TokenBucket::full(OF_ALL, now);
        Self(Mutex::new(Remaining { unknown: all(), sources: HashMap::new(), known: all() }))
    }

    /// Takes one review, and returns whether the limits allow it. `is_known`: the token was accepted recently.
    pub(super) fn take(&self, source: IpAddr, is_known: bool) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known { left.known.take(Instant::now()) } else { left.take(source, Instant::now()) }
    }
}

impl Remaining {
    /// Adds no source while the common limit is used up: the number of sources is unlimited.
    fn take(&mut self, source: IpAddr, now: Instant) -> bool {
        if !self.unknown.has_one(now) {
            return false;
        }
        self.sources.retain(|_, bucket| !bucket.is_full(now));
        let of_source = self.sources.entry(source).or_insert_with(|| TokenBucket::full(OF_SOURCE, now));
        of_source.take(now) && self.unknown.take(now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn one_source_does_not_use_up_the_reviews_of_others() {
        let (rates, now) = (Rates::new(), Instant::now());
        let mut left = rates.0.lock().unwrap();
        let mut taken = |from, seconds| {
            let now = now + Duration::from_secs(seconds);
            (0..1000).filter(|_| left.take(source(from), now)).count()
        };
        assert_eq!([taken(1, 0), taken(1, 4), taken(1, 5)], [30, 0, 1]);
        assert_eq!(taken(2, 5), 30);
        assert_eq!(taken(1, 1000), 30);
    }

    #[test]
    fn all_sources_together_have_a_limit_and_expire() {
        let (rates, now) = (Rates::new(), Instant::now());
        let mut left = rates.0.lock().unwrap();
        let mut most = 0;
        let mut taken = 0;
        for number in 0..100_000 {
            let now = now + Duration::from_millis(number.into());
            taken += u32::from(left.take(source(number), now));
            most = most.max(left.sources.len());
        }
        assert_eq!(taken, 60 + 2 * 100 - 1);
        assert!(most <= 80, "{most} sources are remembered");
    }

    #[test]
    fn known_tokens_have_a_share_that_unknown_tokens_cannot_use() {
        let rates = Rates::new();
        while rates.take(source(1), false) || rates.take(source(2), false) {}
        let known = (0..1000).filter(|_| rates.take(source(1), true)).count();
        assert!((60..70).contains(&known), "{known}");
    }
}
