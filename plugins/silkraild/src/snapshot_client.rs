//! The frontend's cache of encoded snapshots, which it requests from the reader. Each is in memory once for all clients.

mod request_sender;

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use hyper::body::Bytes;
use tokio::{
    net::UnixStream,
    select, spawn,
    sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard},
    task::spawn_blocking,
    time::{Instant, interval, timeout},
};

use self::request_sender::RequestSender;
use crate::{snapshot_encoding::SnapshotEncoding, web_config::WebConfigReloader};

/// Interval of keepalives: the frontend sends the status of the web configuration, the reader the number of its snapshot.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Time without a reply after which the reader counts as hung and /healthz fails.
const HUNG_TIMEOUT: Duration = Duration::from_secs(60);

/// Time without a reply after which cached snapshots are served without waiting for the reader. It replies every
/// [`KEEPALIVE_INTERVAL`].
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(5);

/// Maximum time for which one request for an encoding delays others, which get the latest snapshot meanwhile.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);

/// Part of a client's timeout that is reserved for the transfer of the reader's latest snapshot, if no new one is ready in
/// time. After that the latest one in the cache is served.
const LATEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A client of the reader, with a cache. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotClient(Arc<SnapshotClientInner>);

#[derive(Debug)]
struct SnapshotClientInner {
    sender: RequestSender,
    slots: [CachedEncoding; 3],
    has_any: AtomicBool,
    last_reply: Mutex<Instant>,
}

/// The latest snapshot in one encoding. At most one request at a time waits for a new snapshot, and one for the latest.
#[derive(Debug, Default)]
struct CachedEncoding {
    fresh: Arc<AsyncMutex<()>>,
    present: Arc<AsyncMutex<()>>,
    latest: Mutex<Option<Arc<EncodedSnapshot>>>,
}

/// A snapshot in one encoding.
#[derive(Debug)]
pub(crate) struct EncodedSnapshot {
    /// The number of the snapshot, from 1.
    pub(crate) number: u64,
    pub(crate) plain: Bytes,
    zipped: OnceCell<Bytes>,
}

impl SnapshotClient {
    /// Returns a client of the reader at the other end of the socket, and the task that must run for it. The task ends when
    /// the reader closes the socket.
    pub(crate) fn new(
        stream: UnixStream,
        web: WebConfigReloader,
    ) -> (Self, impl Future<Output = io::Result<()>>) {
        let (sender, transfer) = RequestSender::new(stream, web);
        let last_reply = Mutex::new(Instant::now());
        let snapshots = Self(Arc::new(SnapshotClientInner {
            sender,
            slots: Default::default(),
            has_any: false.into(),
            last_reply,
        }));
        let keepalive = snapshots.clone();
        let task = async move {
            select! {
                end = transfer => end,
                () = keepalive.send_web_status() => Ok(()),
            }
        };
        (snapshots, task)
    }

    /// Whether the reader has a snapshot. It starts the first collection when it starts.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.0.has_any.load(Ordering::Relaxed)
    }

    /// Whether the reader has replied within [`HUNG_TIMEOUT`].
    pub(crate) fn is_responding(&self) -> bool {
        self.last_reply().elapsed() < HUNG_TIMEOUT
    }

    fn is_delayed(&self) -> bool {
        self.last_reply().elapsed() > UNRESPONSIVE_AFTER
    }

    /// Sends keepalives, forever.
    async fn send_web_status(&self) {
        let mut next = interval(KEEPALIVE_INTERVAL);
        loop {
            if let Some((number, _)) = self.0.sender.request(None, KEEPALIVE_INTERVAL, None).await {
                *self.last_reply() = Instant::now();
                self.0.has_any.store(number.is_some(), Ordering::Relaxed);
            }
            next.tick().await;
        }
    }

    /// Returns a new snapshot, or the latest one if none is ready in time. `None` before the first.
    pub(crate) async fn text(
        &self,
        kind: SnapshotEncoding,
        within: Duration,
    ) -> Option<Arc<EncodedSnapshot>> {
        let slot = self.slot(kind);
        let held = slot.latest().clone();
        if held.is_some() && self.is_delayed() {
            return held;
        }
        match timeout(within, self.newest(kind, within)).await {
            Ok(text) => text,
            Err(_) => slot.latest().clone(),
        }
    }

    /// Returns a new snapshot or, shortly before the timeout, the latest one that the reader has.
    async fn newest(&self, kind: SnapshotEncoding, within: Duration) -> Option<Arc<EncodedSnapshot>> {
        let (slot, began) = (self.slot(kind), Instant::now());
        let within = within - LATEST_TIMEOUT.min(within / 4);
        match timeout(within, slot.fresh.clone().lock_owned()).await {
            Ok(guard) => {
                let within = within.saturating_sub(began.elapsed()).min(MAX_REQUEST_TIME);
                self.request_or_latest(kind, within, guard).await
            }
            Err(_) => {
                self.request_or_latest(kind, Duration::ZERO, slot.present.clone().lock_owned().await).await
            }
        }
    }

    /// Completes the request even if its client disconnects; otherwise the next client would start from scratch.
    async fn request_or_latest(
        &self,
        kind: SnapshotEncoding,
        within: Duration,
        guard: OwnedMutexGuard<()>,
    ) -> Option<Arc<EncodedSnapshot>> {
        let snapshots = self.clone();
        let request = spawn(async move {
            let text = snapshots.request(kind, within).await;
            drop(guard);
            text
        });
        request.await.ok().flatten()
    }

    async fn request(&self, kind: SnapshotEncoding, within: Duration) -> Option<Arc<EncodedSnapshot>> {
        let slot = self.slot(kind);
        let held = slot.latest().clone();
        let number = held.as_ref().map(|held| held.number);
        match timeout(within + LATEST_TIMEOUT, self.0.sender.request(Some(kind), within, number)).await {
            Ok(Some((Some(number), Some(text)))) => {
                let text = Arc::new(EncodedSnapshot { number, plain: text, zipped: OnceCell::new() });
                let mut latest = slot.latest();
                if latest.as_ref().is_none_or(|latest| latest.number < number) {
                    *latest = Some(text.clone());
                }
                Some(text)
            }
            _ => held,
        }
    }

    fn last_reply(&self) -> MutexGuard<'_, Instant> {
        self.0.last_reply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, kind: SnapshotEncoding) -> &CachedEncoding {
        &self.0.slots[kind as usize]
    }
}

impl CachedEncoding {
    fn latest(&self) -> MutexGuard<'_, Option<Arc<EncodedSnapshot>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EncodedSnapshot {
    /// Returns the text compressed with gzip. Compresses it once.
    pub(crate) async fn zipped(self: &Arc<Self>) -> Bytes {
        let text = self.clone();
        let zipping = spawn(async move {
            let plain = text.plain.clone();
            let zip = async || spawn_blocking(move || zip(&plain)).await.unwrap_or_default();
            text.zipped.get_or_init(zip).await.clone()
        });
        zipping.await.unwrap_or_default()
    }
}

fn zip(text: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default().into() // writing to a Vec does not fail
}

#[cfg(test)]
mod tests;
