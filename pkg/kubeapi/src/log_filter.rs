//! Suppresses the log of kube.

use tracing::{
    instrument::{WithDispatch, WithSubscriber},
    subscriber::NoSubscriber,
};

/// Suppresses log events of kube within a future: kube logs every failure, and complete responses that it cannot parse. The
/// caller counts failures and logs each once.
pub fn quietly<F: Future>(future: F) -> WithDispatch<F> {
    future.with_subscriber(NoSubscriber::default())
}
