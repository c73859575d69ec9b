//! A cache of recent decisions. It stores hashes of the tokens, not the tokens.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ring::{hmac, rand::SystemRandom};
use tokio::time::Instant;

use crate::access_decision::AccessDecision;

/// Lifetime of a positive decision: how long a revoked token is still accepted. Prometheus scrapes at least once a minute.
const ALLOWED_TTL: Duration = Duration::from_secs(60);

/// Lifetime of a negative decision: how long a user is still rejected after a role was granted.
const DENIED_TTL: Duration = Duration::from_secs(10);

/// How long a token counts as known after its positive decision has expired. It must be reviewed again.
const KNOWN: Duration = Duration::from_secs(600);

/// Maximum number of decisions. There is one for each token and path.
const MAX_DECISIONS: usize = 1024;

/// Decisions by the HMAC of token and path. The key is random and private to this process.
pub(crate) struct DecisionCache {
    key: hmac::Key,
    known: Mutex<HashMap<[u8; 32], CachedDecision>>,
}

#[derive(Debug, Clone, Copy)]
struct CachedDecision {
    decision: AccessDecision,
    until: Instant,
}

impl CachedDecision {
    fn holds(&self) -> bool {
        Instant::now() < self.until
    }

    /// Whether the token counts as known, also after the decision has expired.
    fn is_known(&self) -> bool {
        self.decision == AccessDecision::Allowed && Instant::now() < self.until + KNOWN
    }
}

impl DecisionCache {
    /// Returns an empty cache; `None` if the kernel returns no random numbers.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Self { key, known: Mutex::default() })
    }

    pub(crate) fn find(&self, token: &str, path: &str) -> Option<AccessDecision> {
        let cached = self.known().get(&self.tag(token, path)).copied()?;
        cached.holds().then_some(cached.decision)
    }

    /// Whether the token was accepted recently.
    pub(crate) fn knows(&self, token: &str, path: &str) -> bool {
        self.known().get(&self.tag(token, path)).is_some_and(CachedDecision::is_known)
    }

    pub(crate) fn insert(&self, token: &str, path: &str, decision: AccessDecision) {
        let mut known = self.known();
        if known.len() >= MAX_DECISIONS {
            known.retain(|_, decision| decision.holds() || decision.is_known());
        }
        if known.len() >= MAX_DECISIONS {
            known.clear();
        }
        let within = if decision == AccessDecision::Allowed { ALLOWED_TTL } else { DENIED_TTL };
        known.insert(self.tag(token, path), CachedDecision { decision, until: Instant::now() + within });
    }

    fn tag(&self, token: &str, path: &str) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&token.len().to_be_bytes());
        context.update(token.as_bytes());
        context.update(path.as_bytes());
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], CachedDecision>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_decision_is_valid_for_its_token_and_path_and_expires() {
        let cache = DecisionCache::new().unwrap();
        cache.insert("right", "/metrics", AccessDecision::Allowed);
        cache.insert("wrong", "/metrics", AccessDecision::Unauthenticated);
        assert_eq!(cache.find("right", "/metrics"), Some(AccessDecision::Allowed));
        assert_eq!(cache.find("right", "/api/v1/node"), None);
        assert_eq!(
            cache.find("right/", "metrics"),
            None,
            "the boundary between token and path is part of the hash"
        );
        assert_eq!(cache.find("wrong", "/metrics"), Some(AccessDecision::Unauthenticated));
        cache.insert("right", "/api/v1/node", AccessDecision::Forbidden);
        advance(DENIED_TTL).await;
        assert_eq!(cache.find("wrong", "/metrics"), None);
        assert_eq!(cache.find("right", "/api/v1/node"), None, "a role may have been granted meanwhile");
        assert_eq!(cache.find("right", "/metrics"), Some(AccessDecision::Allowed));
        advance(ALLOWED_TTL).await;
        assert_eq!(cache.find("right", "/metrics"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_accepted_token_is_known_for_a_while() {
        let cache = DecisionCache::new().unwrap();
        cache.insert("right", "/metrics", AccessDecision::Allowed);
        cache.insert("wrong", "/metrics", AccessDecision::Unauthenticated);
        let known = || ["right", "wrong", "new"].map(|token| cache.knows(token, "/metrics"));
        assert_eq!(known(), [true, false, false]);
        advance(ALLOWED_TTL).await;
        assert_eq!((cache.find("right", "/metrics"), known()), (None, [true, false, false]));
        for n in 0..5 * MAX_DECISIONS {
            cache.insert(&n.to_string(), "/metrics", AccessDecision::Unauthenticated);
            advance(DENIED_TTL / 100).await; // the rate limits allow fewer reviews
        }
        assert_eq!(known(), [true, false, false]);
        for revoked in [AccessDecision::Forbidden, AccessDecision::Unauthenticated] {
            cache.insert("right", "/metrics", AccessDecision::Allowed);
            assert_eq!(known(), [true, false, false]);
            cache.insert("right", "/metrics", revoked);
            assert_eq!(known(), [false; 3], "the token or its role was revoked");
        }
        cache.insert("right", "/metrics", AccessDecision::Allowed);
        advance(ALLOWED_TTL + KNOWN).await;
        assert_eq!(known(), [false; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_cached_decisions_is_limited() {
        let cache = DecisionCache::new().unwrap();
        for n in 0..5 * MAX_DECISIONS {
            cache.insert(&n.to_string(), "/metrics", AccessDecision::Unauthenticated);
            assert!(cache.known().len() <= MAX_DECISIONS);
        }
    }
}
