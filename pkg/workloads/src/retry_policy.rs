//! Timeouts and retries of requests to the API server.

use std::time::Duration;

/// Timeout and backoff of requests to the API server.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Timeout of a request.
    pub answer: Duration,
    /// Delay after the first failure. It doubles with each further failure.
    pub first_pause: Duration,
    /// Maximum delay after a temporary failure.
    pub longest_pause: Duration,
    /// Maximum delay after a definite failure: access is denied, or the owner does not exist.
    pub longest_refusal: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            longest_refusal: Duration::from_secs(3600),
        }
    }
}
