//! Readings as the frontend has them: texts that the reader made, each of them in memory once, however many ask.

mod asker;

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

use self::asker::Asker;
use crate::{kind::Kind, web::Web};

/// How often the reader is told of the web configuration, and says whether it has a reading.
const TELLING: Duration = Duration::from_secs(2);

/// How long a reader may say nothing until it counts as hung.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a reader may say nothing until nobody waits for it who can have a former text. It says something every
/// [`TELLING`].
const HANGING: Duration = Duration::from_secs(5);

/// How long who asks for a kind may keep others from doing so. They get the latest reading meanwhile.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// What a text of a reading that the reader has takes to come, out of a client's time: a fresh one is waited for until then.
/// After that the last one that is here will do.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Asks for texts. Clones have the same.
#[derive(Debug, Clone)]
pub(crate) struct Readings(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    asker: Asker,
    slots: [Slot; 3],
    are_there: AtomicBool,
    heard: Mutex<Instant>,
}

/// A kind's latest text. One at a time asks for a fresh one, and one for that which the reader has meanwhile.
#[derive(Debug, Default)]
struct Slot {
    fresh: Arc<Turns<()>>,
    present: Arc<Turns<()>>,
    latest: Mutex<Option<Arc<Text>>>,
}

/// A text of a reading.
#[derive(Debug)]
pub(crate) struct Text {
    /// The reading's number.
    pub(crate) number: u64,
    pub(crate) plain: Bytes,
    zipped: OnceCell<Bytes>,
}

impl Readings {
    /// Those that the reader at the other end of a socket has, and what has to be waited for meanwhile: it ends when the
    /// reader does.
    pub(crate) fn over(stream: UnixStream, web: Web) -> (Self, impl Future<Output = io::Result<()>>) {
        let (asker, talk) = Asker::over(stream, web);
        let heard = Mutex::new(Instant::now());
        let readings =
            Self(Arc::new(Inner { asker, slots: Default::default(), are_there: false.into(), heard }));
        let telling = readings.clone();
        let both = async move {
            select! {
                end = talk => end,
                () = telling.tell() => Ok(()),
            }
        };
        (readings, both)
    }

    /// Whether there is one. The reader begins with it when it is asked the first time.
    pub(crate) fn are_there(&self) -> bool {
        self.0.are_there.load(Ordering::Relaxed)
    }

    /// Whether the reader says anything.
    pub(crate) fn are_told(&self) -> bool {
        self.heard().elapsed() < SILENCE
    }

    fn are_hanging(&self) -> bool {
        self.heard().elapsed() > HANGING
    }

    /// Keeps telling, for ever.
    async fn tell(&self) {
        let mut next = interval(TELLING);
        loop {
            if let Some((number, _)) = self.0.asker.ask(None, TELLING, None).await {
                *self.heard() = Instant::now();
                self.0.are_there.store(number.is_some(), Ordering::Relaxed);
            }
            next.tick().await;
        }
    }

    /// The text of a fresh reading, or of the latest one if none comes in time. `None` before the first.
    pub(crate) async fn text(&self, kind: Kind, within: Duration) -> Option<Arc<Text>> {
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
    async fn newest(&self, kind: Kind, within: Duration) -> Option<Arc<Text>> {
        let (slot, began) = (self.slot(kind), Instant::now());
        let within = within - AT_ONCE.min(within / 4);
        match timeout(within, slot.fresh.clone().lock_owned()).await {
            Ok(turn) => {
                let within = within.saturating_sub(began.elapsed()).min(LONGEST_TURN);
                self.asked(kind, within, turn).await
            }
            Err(_) => self.asked(kind, Duration::ZERO, slot.present.clone().lock_owned().await).await,
        }
    }

    /// A question comes to its end, whoever goes away meanwhile: else each who asks would begin anew.
    async fn asked(&self, kind: Kind, within: Duration, turn: OwnedMutexGuard<()>) -> Option<Arc<Text>> {
        let readings = self.clone();
        let asking = spawn(async move {
            let text = readings.ask(kind, within).await;
            drop(turn);
            text
        });
        asking.await.ok().flatten()
    }

    async fn ask(&self, kind: Kind, within: Duration) -> Option<Arc<Text>> {
        let slot = self.slot(kind);
        let held = slot.latest().clone();
        let number = held.as_ref().map(|held| held.number);
        match timeout(within + AT_ONCE, self.0.asker.ask(Some(kind), within, number)).await {
            Ok(Some((Some(number), Some(text)))) => {
                let text = Arc::new(Text { number, plain: text, zipped: OnceCell::new() });
                let mut latest = slot.latest();
                if latest.as_ref().is_none_or(|latest| latest.number < number) {
                    *latest = Some(text.clone());
                }
                Some(text)
            }
            _ => held,
        }
    }

    fn heard(&self) -> MutexGuard<'_, Instant> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, kind: Kind) -> &Slot {
        &self.0.slots[kind as usize]
    }
}

impl Slot {
    fn latest(&self) -> MutexGuard<'_, Option<Arc<Text>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Text {
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
