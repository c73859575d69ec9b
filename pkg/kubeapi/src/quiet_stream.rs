//! Suppresses the log of kube in streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tracing::subscriber::{NoSubscriber, with_default};

/// A stream of kube whose log events are suppressed, as [`crate::quietly`] does for futures.
#[derive(Debug)]
pub struct QuietStream<S>(Pin<Box<S>>);

impl<S> QuietStream<S> {
    /// Wraps a stream.
    pub fn of(stream: S) -> Self {
        Self(Box::pin(stream))
    }
}

impl<S: Stream> Stream for QuietStream<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        with_default(NoSubscriber::default(), || self.0.as_mut().poll_next(context))
    }
}
