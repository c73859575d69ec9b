//! How often the API server is asked about tokens: anybody can send as many as they like.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use ratelimit::{RateLimit, TokenBucket};

/// About tokens from one source. The page and its files are some paths, each of which is a question, and several people may
/// come from one proxy. A Prometheus whose token is not right asks once in ten seconds at most.
const OF_SOURCE: RateLimit = RateLimit { burst: 30, each: Duration::from_secs(5) };

/// About all tokens. It takes ten sources to use that up; and an API server that can be asked by any pod as often is not to
/// suffer if every node of a large cluster asks so.
const OF_ALL: RateLimit = RateLimit { burst: 60, each: Duration::from_millis(500) };

/// What is left of it.
#[derive(Debug)]
pub(super) struct Rates(Mutex<Left>);

#[derive(Debug)]
struct Left {
    strangers: TokenBucket,
    sources: HashMap<IpAddr, TokenBucket>,
    /// Strangers cannot use up what is here.
    known: TokenBucket,
}

impl Rates {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let all = || TokenBucket::full(OF_ALL, now);
        Self(Mutex::new(Left { strangers: all(), sources: HashMap::new(), known: all() }))
    }

    /// Whether it may be asked about a token, one that it let somebody in with not long ago or another.
    pub(super) fn take(&self, source: IpAddr, is_known: bool) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known { left.known.take(Instant::now()) } else { left.take(source, Instant::now()) }
    }
}

impl Left {
    /// While there is nothing left for all, no source is remembered: there is no end of sources.
    fn take(&mut self, source: IpAddr, now: Instant) -> bool {
        if !self.strangers.has_one(now) {
            return false;
        }
        self.sources.retain(|_, bucket| !bucket.is_full(now));
        let of_source = self.sources.entry(source).or_insert_with(|| TokenBucket::full(OF_SOURCE, now));
        of_source.take(now) && self.strangers.take(now)
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
    fn one_source_keeps_nobody_from_asking() {
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
    fn all_sources_together_have_their_limit_and_are_forgotten_in_time() {
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
    fn whoever_is_known_has_a_share_that_strangers_cannot_take() {
        let rates = Rates::new();
        while rates.take(source(1), false) || rates.take(source(2), false) {}
        let known = (0..1000).filter(|_| rates.take(source(1), true)).count();
        assert!((60..70).contains(&known), "{known}");
    }
}
