//! Where readings come from: one collection at a time, for however many ask.

use std::{
    io::Write,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use exporter::{Exporter, Report};
use exposition::Format;
use flate2::{Compression, write::GzEncoder};
use hyper::body::Bytes;
use tokio::{
    sync::{OnceCell, watch},
    task::spawn_blocking,
    time::timeout,
};

use crate::{view::Node, web::Web};

/// A reading this young is good enough: two Prometheis that ask at once ask the node once.
const FRESH: Duration = Duration::from_millis(500);

/// How long an answer takes at most, about.
const ANSWERING: Duration = Duration::from_millis(100);

/// One collection, and its texts once somebody asked for them.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Of which collection, from 1.
    pub(crate) number: u64,
    done: Instant,
    pub(crate) report: Report,
    texts: [Text; 3],
}

/// Which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The metrics.
    Metrics(Format),
    /// What `/api/v1/node` tells.
    Node,
}

/// A text that is made when somebody asks for it, and then shared by all who ask.
#[derive(Debug, Default)]
struct Text {
    plain: OnceCell<Bytes>,
    zipped: OnceCell<Bytes>,
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
    pub(crate) fn start(exporter: Exporter, web: Web) -> Self {
        let (wanted, orders) = channel();
        let (publish, latest) = watch::channel(None);
        let _ = wanted.send(());
        thread::spawn(move || collect(exporter, &web, &orders, &publish));
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

fn collect(
    mut exporter: Exporter,
    web: &Web,
    orders: &Receiver<()>,
    publish: &watch::Sender<Option<Arc<Reading>>>,
) {
    let mut number = 0;
    while orders.recv().is_ok() {
        let is_fresh = publish.borrow().as_ref().is_some_and(|latest| latest.done.elapsed() < FRESH);
        if is_fresh {
            continue; // somebody asked while it was being made
        }
        number += 1;
        let mut report = exporter.collect();
        web.tell(&mut report);
        let former = publish.send_replace(Some(Arc::new(Reading::new(number, report))));
        // Those who waited are being answered now. Tens of thousands of series can be put away after that.
        thread::sleep(ANSWERING);
        drop(former);
    }
}

impl Reading {
    fn new(number: u64, report: Report) -> Self {
        Self { number, done: Instant::now(), report, texts: Default::default() }
    }

    /// A text.
    pub(crate) async fn text(self: &Arc<Self>, kind: Kind) -> Bytes {
        let reading = self.clone();
        whoever_waits(async move { reading.plain(kind).await }).await
    }

    /// The same, compressed.
    pub(crate) async fn zipped(self: &Arc<Self>, kind: Kind) -> Bytes {
        let reading = self.clone();
        whoever_waits(async move {
            let plain = reading.plain(kind).await;
            let zip = async || spawn_blocking(move || zip(&plain)).await.unwrap_or_default();
            reading.of(kind).zipped.get_or_init(zip).await.clone()
        })
        .await
    }

    async fn plain(self: &Arc<Self>, kind: Kind) -> Bytes {
        let reading = self.clone();
        let encode = async || spawn_blocking(move || reading.encode(kind)).await.unwrap_or_default().into();
        self.of(kind).plain.get_or_init(encode).await.clone()
    }

    fn encode(&self, kind: Kind) -> String {
        match kind {
            Kind::Metrics(format) => self.report.exposition.encode(format),
            // Numbers and texts always have a JSON.
            Kind::Node => serde_json::to_string(&Node::from(&self.report)).unwrap_or_default(),
        }
    }

    fn of(&self, kind: Kind) -> &Text {
        match kind {
            Kind::Metrics(format) => &self.texts[format as usize],
            Kind::Node => &self.texts[2],
        }
    }
}

/// What is made for all who ask, whoever of them goes away meanwhile: else it would be begun anew for each.
async fn whoever_waits(text: impl Future<Output = Bytes> + Send + 'static) -> Bytes {
    tokio::spawn(text).await.unwrap_or_default()
}

fn zip(text: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(text).and_then(|()| encoder.finish());
    written.unwrap_or_default().into() // a Vec takes everything
}

impl Kind {
    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Metrics(format) => format.content_type(),
            Self::Node => "application/json",
        }
    }
}
