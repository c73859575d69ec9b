//! Tokens of the Kubernetes API: it decides whether their bearers may read a path.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokenreview::{AccessDecision, TokenReviewer};

use super::{fair_queue::FairQueue, review_rates::Rates};

/// Questions to the API server at a time.
const MAX_CONCURRENT_REVIEWS: usize = 4;

/// How often is said that the API server does not decide.
const REVIEW_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The queue of those whose tokens are looked at. One that was decided about not long ago does not wait.
#[derive(Debug, Clone)]
pub(crate) struct TokenReviewQueue {
    reviews: Arc<TokenReviewer>,
    rates: Arc<Rates>,
    queue: FairQueue,
    said: Arc<Mutex<Option<Instant>>>,
}

/// Why nobody knows whether somebody may read something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    /// The API was asked often enough about tokens from there, or from everywhere.
    TooOften,
    /// It does not say.
    Unanswered,
}

impl TokenReviewQueue {
    /// The API decides by these.
    pub(crate) fn new(reviews: TokenReviewer) -> Self {
        let (reviews, rates) = (Arc::new(reviews), Arc::new(Rates::new()));
        Self { reviews, rates, queue: FairQueue::new(MAX_CONCURRENT_REVIEWS), said: Arc::default() }
    }

    /// What the API decides.
    pub(super) async fn decide(
        &self,
        token: &str,
        path: &str,
        source: IpAddr,
    ) -> Result<AccessDecision, Undecided> {
        if let Some(known) = self.reviews.cached(token, path) {
            return Ok(known);
        }
        if !self.rates.take(source, self.reviews.has_let_in(token, path)) {
            return Err(Undecided::TooOften);
        }
        let _turn = self.queue.acquire(source).await.ok_or(Undecided::Unanswered)?;
        // Another connection of the same client may have asked meanwhile.
        if let Some(known) = self.reviews.cached(token, path) {
            return Ok(known);
        }
        let decided = self.reviews.review(token, path).await.inspect_err(|error| self.log_limited(error));
        decided.map_err(|_| Undecided::Unanswered)
    }

    /// Now and then: anybody can send tokens as fast as they like.
    fn log_limited(&self, error: &tokenreview::Error) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() > REVIEW_ERROR_LOG_INTERVAL) {
            *said = Some(Instant::now());
            tracing::warn!("nobody is let in by a token: {error}");
        }
    }
}

/// The token of an `Authorization` header.
pub(super) fn from_header(value: &[u8]) -> Option<&str> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = std::str::from_utf8(token).ok()?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearers_token_is_told_from_other_logins() {
        assert_eq!(from_header(b"Bearer a.b.c"), Some("a.b.c"));
        assert_eq!(from_header(b"bearer  a.b.c "), Some("a.b.c"));
        for other in [&b"Basic YWxpY2U6c2VjcmV0"[..], b"Bearer", b"Bearer ", b"Bearer \xff", b"", b"a.b.c"] {
            assert_eq!(from_header(other), None);
        }
    }
}
