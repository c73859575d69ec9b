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
