//! `--web.token-review`: the setup of token reviews by the Kubernetes API.

use std::net::SocketAddr;

use tokenreview::TokenReviewer;

use crate::{http::TokenReviewQueue, web_config::WebConfigReloader};

/// Why tokens cannot be reviewed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenReviewError {
    #[error(
        "--web.token-review: tokens of the cluster would be sent in clear text to {address}; give --web.config.file with a \
         tls_server_config, or listen on a loopback address"
    )]
    InClear { address: SocketAddr },
    #[error(
        "--web.token-review: no Kubernetes API is configured: run silkraild in a pod with a service account, or set KUBECONFIG"
    )]
    NoApi,
    #[error("--web.token-review: {0}")]
    Access(#[from] kubeapi::Error),
    #[error("--web.token-review: {0}")]
    Reviews(#[from] tokenreview::Error),
}

/// Returns the queue of token reviews, if `wanted`.
///
/// # Errors
/// [`TokenReviewError`]: silkraild must not start then.
pub(crate) async fn find(
    wanted: bool,
    address: SocketAddr,
    web: &WebConfigReloader,
) -> Result<Option<TokenReviewQueue>, TokenReviewError> {
    if !wanted {
        return Ok(None);
    }
    if web.current().tls.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(TokenReviewError::InClear { address });
    }
    let client = kubeapi::connect().await?.ok_or(TokenReviewError::NoApi)?;
    Ok(Some(TokenReviewQueue::new(TokenReviewer::new(client)?)))
}
