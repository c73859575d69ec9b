//! What was decided not long ago, by tokens that are not kept.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ring::{hmac, rand::SystemRandom};
use tokio::time::Instant;

use crate::AccessDecision;

/// How long somebody is let in after their token was taken back. Prometheus scrapes once a minute, or more often.
const ALLOWED_TTL: Duration = Duration::from_secs(60);

/// How long somebody is kept out after they were given a role.
const DENIED_TTL: Duration = Duration::from_secs(10);

/// How long somebody who was let in is known after that, though not let in any more without a question.
const KNOWN: Duration = Duration::from_secs(600);

/// So many decisions. Whoever has a token can have one for each path.
const MAX_DECISIONS: usize = 1024;

/// Decisions by a keyed hash of token and path. The key is this process's own.
pub(crate) struct DecisionCache {
    key: hmac::Key,
    known: Mutex<HashMap<[u8; 32], Decision>>,
}

#[derive(Debug, Clone, Copy)]
struct Decision {
    verdict: AccessDecision,
    until: Instant,
}

impl Decision {
    fn holds(&self) -> bool {
        Instant::now() < self.until
    }

    /// Whether who it is about is known, also after it has held.
    fn is_known(&self) -> bool {
        self.verdict == AccessDecision::Allowed && Instant::now() < self.until + KNOWN
    }
}

impl DecisionCache {
    /// `None` without random numbers.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok()?;
        Some(Self { key, known: Mutex::default() })
    }

    pub(crate) fn find(&self, token: &str, path: &str) -> Option<AccessDecision> {
        let decision = self.known().get(&self.tag(token, path)).copied()?;
        decision.holds().then_some(decision.verdict)
    }

    /// Whether somebody was let in not long ago.
    pub(crate) fn knows(&self, token: &str, path: &str) -> bool {
        self.known().get(&self.tag(token, path)).is_some_and(Decision::is_known)
    }

    pub(crate) fn insert(&self, token: &str, path: &str, verdict: AccessDecision) {
        let mut known = self.known();
        if known.len() >= MAX_DECISIONS {
            known.retain(|_, decision| decision.holds() || decision.is_known());
        }
        if known.len() >= MAX_DECISIONS {
            known.clear();
        }
        let within = if verdict == AccessDecision::Allowed { ALLOWED_TTL } else { DENIED_TTL };
        known.insert(self.tag(token, path), Decision { verdict, until: Instant::now() + within });
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

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], Decision>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_decision_holds_for_its_token_and_path_and_not_for_ever() {
        let memory = DecisionCache::new().unwrap();
        memory.insert("right", "/metrics", AccessDecision::Allowed);
        memory.insert("wrong", "/metrics", AccessDecision::Unauthenticated);
        assert_eq!(memory.find("right", "/metrics"), Some(AccessDecision::Allowed));
        assert_eq!(memory.find("right", "/api/v1/node"), None);
        assert_eq!(
            memory.find("right/", "metrics"),
            None,
            "where one ends and the other begins is part of it"
        );
        assert_eq!(memory.find("wrong", "/metrics"), Some(AccessDecision::Unauthenticated));
        advance(DENIED_TTL).await;
        assert_eq!(memory.find("wrong", "/metrics"), None);
        assert_eq!(memory.find("right", "/metrics"), Some(AccessDecision::Allowed));
        advance(ALLOWED_TTL).await;
        assert_eq!(memory.find("right", "/metrics"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_let_in_is_known_for_a_while_and_nobody_else() {
        let memory = DecisionCache::new().unwrap();
        memory.insert("right", "/metrics", AccessDecision::Allowed);
        memory.insert("wrong", "/metrics", AccessDecision::Unauthenticated);
        let known = || ["right", "wrong", "new"].map(|token| memory.knows(token, "/metrics"));
        assert_eq!(known(), [true, false, false]);
        advance(ALLOWED_TTL).await;
        assert_eq!((memory.find("right", "/metrics"), known()), (None, [true, false, false]));
        for n in 0..5 * MAX_DECISIONS {
            memory.insert(&n.to_string(), "/metrics", AccessDecision::Unauthenticated);
            advance(DENIED_TTL / 100).await; // faster than a hundred a second is never asked
        }
        assert_eq!(known(), [true, false, false]);
        memory.insert("right", "/metrics", AccessDecision::Unauthenticated);
        assert_eq!(known(), [false; 3], "it was taken back");
        memory.insert("right", "/metrics", AccessDecision::Allowed);
        advance(ALLOWED_TTL + KNOWN).await;
        assert_eq!(known(), [false; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_tokens_fills_the_memory() {
        let memory = DecisionCache::new().unwrap();
        for n in 0..5 * MAX_DECISIONS {
            memory.insert(&n.to_string(), "/metrics", AccessDecision::Unauthenticated);
            assert!(memory.known().len() <= MAX_DECISIONS);
        }
    }
}
