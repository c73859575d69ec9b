//! Where readings come from: one collection at a time, for however many ask.

use std::{
    io::Write,
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use exporter::{Exporter, Report};
use exposition::Format;
use flate2::{Compression, write::GzEncoder};
use tokio::{sync::watch, time::timeout};

/// A reading this young is good enough: two Prometheis that ask at once ask the node once.
const FRESH: Duration = Duration::from_millis(500);

/// One collection, and its texts once somebody asked for them.
#[derive(Debug)]
pub(crate) struct Reading {
    number: u64,
    done: Instant,
    pub(crate) report: Report,
    texts: [OnceLock<Arc<str>>; 2],
    zipped: [OnceLock<Arc<[u8]>>; 2],
}

/// Asks for readings. Clones ask the same collector.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    wanted: Sender<()>,
    latest: watch::Receiver<Option<Arc<Reading>>>,
}

impl Source {
    /// Starts the collector, and a first collection. It has a thread of its own: firmware that hangs must not keep
    /// anybody from getting an answer.
    pub(crate) fn start(exporter: Exporter) -> Self {
        let (wanted, orders) = channel();
        let (publish, latest) = watch::channel(None);
        let _ = wanted.send(());
        thread::spawn(move || collect(exporter, &orders, &publish));
        Self { wanted, latest }
    }

    /// A fresh reading, or the latest one if none comes in time. `None` before the first.
    pub(crate) async fn reading(&self, within: Duration) -> Option<Arc<Reading>> {
        let seen = self.latest();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.done.elapsed() < FRESH) {
            return Some(seen.clone());
        }
        let former = seen.as_ref().map_or(0, |seen| seen.number);
        let _ = self.wanted.send(());
        let mut latest = self.latest.clone();
        let is_newer = |now: &Option<Arc<Reading>>| now.as_ref().is_some_and(|now| now.number > former);
        let new = timeout(within, latest.wait_for(is_newer)).await;
        new.ok().and_then(Result::ok).and_then(|new| new.clone()).or(seen)
    }

    /// The latest reading, whatever its age.
    pub(crate) fn latest(&self) -> Option<Arc<Reading>> {
        self.latest.borrow().clone()
    }
}

fn collect(mut exporter: Exporter, orders: &Receiver<()>, publish: &watch::Sender<Option<Arc<Reading>>>) {
    let mut number = 0;
    while orders.recv().is_ok() {
        let is_fresh = publish.borrow().as_ref().is_some_and(|latest| latest.done.elapsed() < FRESH);
        if is_fresh {
            continue; // somebody asked while it was being made
        }
        number += 1;
        let report = exporter.collect();
        publish.send_replace(Some(Arc::new(Reading::new(number, report))));
    }
}

impl Reading {
    fn new(number: u64, report: Report) -> Self {
        Self { number, done: Instant::now(), report, texts: Default::default(), zipped: Default::default() }
    }

    /// The metrics as text.
    pub(crate) fn text(&self, format: Format) -> Arc<str> {
        self.texts[format as usize].get_or_init(|| self.report.exposition.encode(format).into()).clone()
    }

    /// The same, compressed.
    pub(crate) fn zipped(&self, format: Format) -> Arc<[u8]> {
        let zip = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(self.text(format).as_bytes()).and_then(|()| encoder.finish());
            written.unwrap_or_default().into() // a Vec takes everything
        };
        self.zipped[format as usize].get_or_init(zip).clone()
    }
}
