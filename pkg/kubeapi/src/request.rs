//! A request with a timeout, without kube's own log.

use std::time::Duration;

use tokio::time::timeout;

use crate::{quietly, with_causes};

/// A request has no result.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It is not known whether it was executed.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// kube's error, with its causes.
    #[error("{}", with_causes(.0))]
    Failed(kube::Error),
}

/// Returns the response to a request.
///
/// # Errors
/// [`RequestError`].
pub async fn within<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, RequestError> {
    match timeout(limit, quietly(request)).await {
        Ok(response) => response.map_err(RequestError::Failed),
        Err(_) => Err(RequestError::Timeout(limit)),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_has_a_response_or_an_error_or_neither_in_time() {
        let limit = Duration::from_secs(3);
        assert_eq!(within(limit, ready(Ok(7))).await.unwrap(), 7);
        let failed = within::<()>(limit, ready(Err(kube::Error::LinesCodecMaxLineLengthExceeded))).await;
        assert!(matches!(failed, Err(RequestError::Failed(_))), "{failed:?}");
        let began = tokio::time::Instant::now();
        let late = within::<()>(limit, pending()).await.unwrap_err();
        assert_eq!((late.to_string().as_str(), began.elapsed()), ("no response within 3s", limit));
    }
}
