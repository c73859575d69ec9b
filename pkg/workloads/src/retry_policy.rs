//! Timeouts and retries of requests to the API server.

use std::time::Duration;

/// Timeout and backoff of requests to the API server.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// Delay after the first failure. It doubles with each further failure.
    pub initial_delay: Duration,
    /// Maximum delay after a temporary failure.
    pub max_delay: Duration,
    /// Maximum delay after a definite failure: access is denied, or the owner does not exist.
    pub max_refusal_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(15),
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            max_refusal_delay: Duration::from_secs(3600),
        }
    }
}
