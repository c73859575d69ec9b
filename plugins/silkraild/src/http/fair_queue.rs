//! A queue that is fair to sources: each has at most one entry in it. Further requests of a source wait for that one.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queue. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct FairQueue {
    at_once: Arc<Semaphore>,
    /// One permit for each source that waits or holds a permit of the queue.
    sources: Arc<Mutex<HashMap<IpAddr, Weak<Semaphore>>>>,
}

/// A permit, released on drop.
#[derive(Debug)]
pub(super) struct QueuePermit {
    _of_source: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl FairQueue {
    /// Returns a queue that grants `at_once` permits at a time.
    pub(super) fn new(at_once: usize) -> Self {
        Self { at_once: Arc::new(Semaphore::new(at_once)), sources: Arc::default() }
    }

    /// Waits for a permit; `None` if the queue is closed.
    pub(super) async fn acquire(&self, source: IpAddr) -> Option<QueuePermit> {
        let of_source = self.semaphore_of(source).acquire_owned().await.ok()?;
        let of_all = self.at_once.clone().acquire_owned().await.ok()?;
        Some(QueuePermit { _of_source: of_source, _of_all: of_all })
    }

    fn semaphore_of(&self, source: IpAddr) -> Arc<Semaphore> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, semaphore| semaphore.strong_count() > 0);
        if let Some(semaphore) = sources.get(&source).and_then(Weak::upgrade) {
            return semaphore;
        }
        let semaphore = Arc::new(Semaphore::new(1));
        sources.insert(source, Arc::downgrade(&semaphore));
        semaphore
    }
}
