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
use hyper::body::Bytes;
use tokio::{sync::watch, time::timeout};

use crate::view::Node;

/// A reading this young is good enough: two Prometheis that ask at once ask the node once.
const FRESH: Duration = Duration::from_millis(500);

/// How long an answer takes at most, about.
const ANSWERING: Duration = Duration::from_millis(100);

/// One collection, and its texts once somebody asked for them.
#[derive(Debug)]
pub(crate) struct Reading {
    number: u64,
    done: Instant,
    pub(crate) report: Report,
    metrics: [Text; 2],
    view: Text,
}

/// A text that is made when somebody asks for it, and then shared by all who ask.
#[derive(Debug, Default)]
pub(crate) struct Text {
    plain: OnceLock<Bytes>,
    zipped: OnceLock<Bytes>,
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
        let former = publish.send_replace(Some(Arc::new(Reading::new(number, report))));
        // Those who waited are being answered now. Tens of thousands of series can be put away after that.
        thread::sleep(ANSWERING);
        drop(former);
    }
}

impl Reading {
    fn new(number: u64, report: Report) -> Self {
        let (metrics, view) = Default::default();
        Self { number, done: Instant::now(), report, metrics, view }
    }

    /// The metrics.
    pub(crate) fn metrics(&self, format: Format) -> &Text {
        self.metrics[format as usize].filled(|| self.report.exposition.encode(format))
    }

    /// What `/api/v1/node` tells.
    pub(crate) fn view(&self) -> &Text {
        // Numbers and texts always have a JSON.
        self.view.filled(|| serde_json::to_string(&Node::from(&self.report)).unwrap_or_default())
    }
}

impl Text {
    fn filled(&self, text: impl FnOnce() -> String) -> &Self {
        self.plain.get_or_init(|| text().into());
        self
    }

    /// The text.
    pub(crate) fn plain(&self) -> Bytes {
        self.plain.get().cloned().unwrap_or_default()
    }

    /// The same, compressed.
    pub(crate) fn zipped(&self) -> Bytes {
        let zip = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            let written = encoder.write_all(&self.plain()).and_then(|()| encoder.finish());
            written.unwrap_or_default().into() // a Vec takes everything
        };
        self.zipped.get_or_init(zip).clone()
    }
}
