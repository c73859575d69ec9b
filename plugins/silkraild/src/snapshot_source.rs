//! Where readings come from: one collection at a time, for however many ask.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use exporter::{Exporter, NodeSnapshot};
use exposition::ExpositionFormat;
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use crate::{node_view::NodeView, snapshot_encoding::SnapshotEncoding, web_config::WebConfigStatus};

/// A reading this young is good enough: two Prometheis that ask at once ask the node once.
const MAX_SNAPSHOT_AGE: Duration = Duration::from_millis(500);

/// How long an answer takes at most, about.
const ENCODE_MARGIN: Duration = Duration::from_millis(100);

/// One collection.
#[derive(Debug)]
pub(crate) struct NumberedSnapshot {
    /// Of which collection, from 1.
    pub(crate) number: u64,
    done: Instant,
    report: NodeSnapshot,
}

/// Asks for readings. Clones ask the same collector.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotSource {
    wanted: Sender<()>,
    latest: watch::Receiver<Option<Arc<NumberedSnapshot>>>,
    web: Arc<Mutex<Option<WebConfigStatus>>>,
}

impl SnapshotSource {
    /// Starts the collector, and a first collection. It has a thread of its own: firmware that hangs must not keep
    /// anybody from getting an answer.
    pub(crate) fn start(exporter: Exporter, web: Option<WebConfigStatus>) -> Self {
        let (wanted, orders) = channel();
        let (publish, latest) = watch::channel(None);
        let web = Arc::new(Mutex::new(web));
        let source = Self { wanted, latest, web: web.clone() };
        source.request_collection();
        thread::spawn(move || collect(exporter, &web, &orders, &publish));
        source
    }

    /// What the metrics are to tell of the web configuration from now on.
    pub(crate) fn set_web(&self, status: Option<WebConfigStatus>) {
        *self.web.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// A fresh reading, or the latest one if none comes in time. `None` before the first.
    pub(crate) async fn reading(&self, within: Duration) -> Option<Arc<NumberedSnapshot>> {
        let seen = self.latest.borrow().clone();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.done.elapsed() < MAX_SNAPSHOT_AGE) {
            return Some(seen.clone());
        }
        let former = seen.as_ref().map_or(0, |seen| seen.number);
        self.request_collection();
        let mut latest = self.latest.clone();
        let is_newer =
            |now: &Option<Arc<NumberedSnapshot>>| now.as_ref().is_some_and(|now| now.number > former);
        let new = timeout(within, latest.wait_for(is_newer)).await;
        new.ok().and_then(Result::ok).and_then(|new| new.clone()).or(seen)
    }

    /// The number of the latest reading, whatever its age. The first is waited for.
    pub(crate) async fn first_number(&self, within: Duration) -> Option<u64> {
        let mut latest = self.latest.clone();
        let first = timeout(within, latest.wait_for(Option::is_some)).await.ok()?.ok()?;
        first.as_ref().map(|reading| reading.number)
    }

    fn request_collection(&self) {
        let _ = self.wanted.send(()); // the collector's thread ends with the process
    }
}

fn collect(
    mut exporter: Exporter,
    web: &Mutex<Option<WebConfigStatus>>,
    orders: &Receiver<()>,
    publish: &watch::Sender<Option<Arc<NumberedSnapshot>>>,
) {
    let mut number = 0;
    while orders.recv().is_ok() {
        let is_fresh =
            publish.borrow().as_ref().is_some_and(|latest| latest.done.elapsed() < MAX_SNAPSHOT_AGE);
        if is_fresh {
            continue; // somebody asked while it was being made
        }
        number += 1;
        let mut report = exporter.collect();
        let status = *web.lock().unwrap_or_else(PoisonError::into_inner);
        status.inspect(|status| status.write_families(&mut report));
        let reading = NumberedSnapshot { number, done: Instant::now(), report };
        let former = publish.send_replace(Some(Arc::new(reading)));
        // Those who waited are being answered now. Tens of thousands of series can be put away after that.
        thread::sleep(ENCODE_MARGIN);
        drop(former);
    }
}

impl NumberedSnapshot {
    /// A text, made anew for each who asks.
    pub(crate) async fn text(self: &Arc<Self>, kind: SnapshotEncoding) -> Vec<u8> {
        let reading = self.clone();
        spawn_blocking(move || reading.encode(kind)).await.unwrap_or_default().into()
    }

    fn encode(&self, kind: SnapshotEncoding) -> String {
        match kind {
            SnapshotEncoding::Text => self.report.exposition.encode(ExpositionFormat::Text),
            SnapshotEncoding::OpenMetrics => self.report.exposition.encode(ExpositionFormat::OpenMetrics),
            // Numbers and texts always have a JSON.
            SnapshotEncoding::Node => {
                serde_json::to_string(&NodeView::from(&self.report)).unwrap_or_default()
            }
        }
    }
}
