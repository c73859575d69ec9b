//! A queue in which each address waits for itself: one of it has a place, and the others wait for that one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queue.
#[derive(Debug, Clone)]
pub(super) struct FairQueue {
    at_once: Arc<Semaphore>,
    /// The places.
    sources: Arc<Mutex<HashMap<IpAddr, Weak<Semaphore>>>>,
}

/// Somebody's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct QueuePermit {
    _of_source: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl FairQueue {
    /// One from which so many have their turn at once.
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once: Arc::new(Semaphore::new(at_once)), sources: Arc::default() }
    }

    /// Waits for a turn; `None` if there will be none.
    pub(super) async fn acquire(&self, source: IpAddr) -> Option<QueuePermit> {
        let of_source = self.semaphore_of(source).acquire_owned().await.ok()?;
        let of_all = self.at_once.clone().acquire_owned().await.ok()?;
        Some(QueuePermit { _of_source: of_source, _of_all: of_all })
    }

    fn semaphore_of(&self, source: IpAddr) -> Arc<Semaphore> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, place| place.strong_count() > 0);
        if let Some(place) = sources.get(&source).and_then(Weak::upgrade) {
            return place;
        }
        let place = Arc::new(Semaphore::new(1));
        sources.insert(source, Arc::downgrade(&place));
        place
    }
}
