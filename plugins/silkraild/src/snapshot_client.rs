//! Readings as the frontend has them: texts that the reader made, each of them in memory once, however many ask.

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
    sync::{Mutex as Turns, OnceCell, OwnedMutexGuard},
    task::spawn_blocking,
    time::{Instant, interval, timeout},
};

use self::request_sender::RequestSender;
use crate::{snapshot_encoding::SnapshotEncoding, web_config::WebConfigReloader};

/// How often the reader is told of the web configuration, and says whether it has a reading.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a reader may say nothing until it counts as hung.
const HUNG_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a reader may say nothing until nobody waits for it who can have a former text. It says something every
/// [`KEEPALIVE_INTERVAL`].
const HANGING: Duration = Duration::from_secs(5);

/// How long who asks for a kind may keep others from doing so. They get the latest reading meanwhile.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(10);

/// What a text of a reading that the reader has takes to come, out of a client's time: a fresh one is waited for until then.
/// After that the last one that is here will do.
const LATEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks for texts. Clones have the same.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotClient(Arc<SnapshotClientInner>);

#[derive(Debug)]
struct SnapshotClientInner {
    asker: RequestSender,
    slots: [CachedEncoding; 3],
    are_there: AtomicBool,
    heard: Mutex<Instant>,
}

/// A kind's latest text. One at a time asks for a fresh one, and one for that which the reader has meanwhile.
#[derive(Debug, Default)]
struct CachedEncoding {
    fresh: Arc<Turns<()>>,
    present: Arc<Turns<()>>,
    latest: Mutex<Option<Arc<EncodedSnapshot>>>,
}

/// A text of a reading.
#[derive(Debug)]
pub(crate) struct EncodedSnapshot {
    /// The reading's number.
    pub(crate) number: u64,
    pub(crate) plain: Bytes,
    zipped: OnceCell<Bytes>,
}

impl SnapshotClient {
    /// Those that the reader at the other end of a socket has, and what has to be waited for meanwhile: it ends when the
    /// reader does.
    pub(crate) fn new(
        stream: UnixStream,
        web: WebConfigReloader,
    ) -> (Self, impl Future<Output = io::Result<()>>) {
        let (asker, talk) = RequestSender::new(stream, web);
        let heard = Mutex::new(Instant::now());
        let readings = Self(Arc::new(SnapshotClientInner {
            asker,
            slots: Default::default(),
            are_there: false.into(),
            heard,
        }));
        let telling = readings.clone();
        let both = async move {
            select! {
                end = talk => end,
                () = telling.send_web_status() => Ok(()),
            }
        };
        (readings, both)
    }

    /// Whether there is one. The reader begins with it when it is asked the first time.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.0.are_there.load(Ordering::Relaxed)
    }

    /// Whether the reader says anything.
    pub(crate) fn is_responding(&self) -> bool {
        self.note_reply().elapsed() < HUNG_TIMEOUT
    }

    fn are_hanging(&self) -> bool {
        self.note_reply().elapsed() > HANGING
    }

    /// Keeps telling, for ever.
    async fn send_web_status(&self) {
        let mut next = interval(KEEPALIVE_INTERVAL);
        loop {
            if let Some((number, _)) = self.0.asker.request(None, KEEPALIVE_INTERVAL, None).await {
                *self.note_reply() = Instant::now();
                self.0.are_there.store(number.is_some(), Ordering::Relaxed);
            }
            next.tick().await;
        }
    }

    /// The text of a fresh reading, or of the latest one if none comes in time. `None` before the first.
    pub(crate) async fn text(
        &self,
        kind: SnapshotEncoding,
        within: Duration,
    ) -> Option<Arc<EncodedSnapshot>> {
        let slot = self.slot(kind);
        let held = slot.latest().clone();
        if held.is_some() && self.are_hanging() {
            return held;
        }
        match timeout(within, self.newest(kind, within)).await {
            Ok(text) => text,
            Err(_) => slot.latest().clone(),
        }
    }

    /// The text of a fresh reading or, shortly before the time is up, of the latest one that the reader has.
    async fn newest(&self, kind: SnapshotEncoding, within: Duration) -> Option<Arc<EncodedSnapshot>> {
        let (slot, began) = (self.slot(kind), Instant::now());
        let within = within - LATEST_TIMEOUT.min(within / 4);
        match timeout(within, slot.fresh.clone().lock_owned()).await {
            Ok(turn) => {
                let within = within.saturating_sub(began.elapsed()).min(MAX_REQUEST_TIME);
                self.request_or_latest(kind, within, turn).await
            }
            Err(_) => {
                self.request_or_latest(kind, Duration::ZERO, slot.present.clone().lock_owned().await).await
            }
        }
    }

    /// A question comes to its end, whoever goes away meanwhile: else each who asks would begin anew.
    async fn request_or_latest(
        &self,
        kind: SnapshotEncoding,
        within: Duration,
        turn: OwnedMutexGuard<()>,
    ) -> Option<Arc<EncodedSnapshot>> {
        let readings = self.clone();
        let asking = spawn(async move {
            let text = readings.request(kind, within).await;
            drop(turn);
            text
        });
        asking.await.ok().flatten()
    }

    async fn request(&self, kind: SnapshotEncoding, within: Duration) -> Option<Arc<EncodedSnapshot>> {
        let slot = self.slot(kind);
        let held = slot.latest().clone();
        let number = held.as_ref().map(|held| held.number);
        match timeout(within + LATEST_TIMEOUT, self.0.asker.request(Some(kind), within, number)).await {
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

    fn note_reply(&self) -> MutexGuard<'_, Instant> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The same, compressed.
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
    written.unwrap_or_default().into() // a Vec takes everything
}

#[cfg(test)]
mod tests;
