//! Reviews of tokens by the Kubernetes API, limited in rate and number.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokenreview::{AccessDecision, TokenReviewer};

use super::{fair_queue::FairQueue, review_rates::Rates};

/// Concurrent reviews.
const MAX_CONCURRENT_REVIEWS: usize = 4;

/// Minimum interval between log lines about failed reviews.
const REVIEW_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The queue of token reviews. Cached decisions do not wait. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TokenReviewQueue {
    reviews: Arc<TokenReviewer>,
    rates: Arc<Rates>,
    queue: FairQueue,
    last_logged: Arc<Mutex<Option<Instant>>>,
}

/// Why there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    /// A rate limit is reached, of the source or of all sources.
    TooOften,
    /// The API server did not review the token.
    Unanswered,
}

impl TokenReviewQueue {
    /// Returns a queue for a reviewer.
    pub(crate) fn new(reviews: TokenReviewer) -> Self {
        let (reviews, rates) = (Arc::new(reviews), Arc::new(Rates::new()));
        Self { reviews, rates, queue: FairQueue::new(MAX_CONCURRENT_REVIEWS), last_logged: Arc::default() }
    }

    /// Returns the decision of the API server, or the cached one.
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
        let _permit = self.queue.acquire(source).await.ok_or(Undecided::Unanswered)?;
        // Another connection of the same client may have got a decision meanwhile.
        if let Some(known) = self.reviews.cached(token, path) {
            return Ok(known);
        }
        let decided = self.reviews.review(token, path).await.inspect_err(|error| self.log_limited(error));
        decided.map_err(|_| Undecided::Unanswered)
    }

    /// Limited, because unauthenticated clients can send tokens at any rate.
    fn log_limited(&self, error: &tokenreview::Error) {
        let mut last_logged = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last_logged.is_none_or(|last_logged| last_logged.elapsed() > REVIEW_ERROR_LOG_INTERVAL) {
            *last_logged = Some(Instant::now());
            tracing::warn!("cannot review tokens: {error}");
        }
    }
}

/// Returns the token of an `Authorization: Bearer` header.
pub(super) fn from_header(value: &[u8]) -> Option<&str> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = std::str::from_utf8(token).ok()?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_headers_contain_a_token() {
        assert_eq!(from_header(b"Bearer a.b.c"), Some("a.b.c"));
        assert_eq!(from_header(b"bearer  a.b.c "), Some("a.b.c"));
        for other in [&b"Basic YWxpY2U6c2VjcmV0"[..], b"Bearer", b"Bearer ", b"Bearer \xff", b"", b"a.b.c"] {
            assert_eq!(from_header(other), None);
        }
    }
}
