//! A log that tells each trouble once.

use tracing::{
    instrument::{WithDispatch, WithSubscriber},
    subscriber::NoSubscriber,
};

/// Keeps kube out of the log: it says every failure every time, and repeats whole answers that it cannot read. Whoever asks
/// counts failures, and says each once.
pub fn quietly<F: Future>(future: F) -> WithDispatch<F> {
    future.with_subscriber(NoSubscriber::default())
}
