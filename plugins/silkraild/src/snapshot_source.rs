//! The source of snapshots: one collection at a time, for any number of concurrent requests.

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

/// Maximum age of a snapshot that is served again: two Prometheus servers that scrape at the same time cause one collection.
const MAX_SNAPSHOT_AGE: Duration = Duration::from_millis(500);

/// Time for encoding a new snapshot, before the former one is freed.
const ENCODE_MARGIN: Duration = Duration::from_millis(100);

/// The result of one collection.
#[derive(Debug)]
pub(crate) struct NumberedSnapshot {
    /// The number of the collection, from 1.
    pub(crate) number: u64,
    done: Instant,
    report: NodeSnapshot,
}

/// Requests snapshots. Clones share one collector.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotSource {
    wanted: Sender<()>,
    latest: watch::Receiver<Option<Arc<NumberedSnapshot>>>,
    web: Arc<Mutex<Option<WebConfigStatus>>>,
}

impl SnapshotSource {
    /// Starts the collector and the first collection. The collector has its own thread: firmware that hangs must not
    /// block replies.
    pub(crate) fn start(exporter: Exporter, web: Option<WebConfigStatus>) -> Self {
        let (wanted, requests) = channel();
        let (publish, latest) = watch::channel(None);
        let web = Arc::new(Mutex::new(web));
        let source = Self { wanted, latest, web: web.clone() };
        source.request_collection();
        thread::spawn(move || collect(exporter, &web, &requests, &publish));
        source
    }

    /// Sets the status of the web configuration that the following snapshots contain.
    pub(crate) fn set_web(&self, status: Option<WebConfigStatus>) {
        *self.web.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Returns a new snapshot, or the latest one if none is ready in time. `None` before the first.
    pub(crate) async fn snapshot(&self, within: Duration) -> Option<Arc<NumberedSnapshot>> {
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

    /// Returns the number of the latest snapshot, regardless of its age. Waits for the first.
    pub(crate) async fn first_number(&self, within: Duration) -> Option<u64> {
        let mut latest = self.latest.clone();
        let first = timeout(within, latest.wait_for(Option::is_some)).await.ok()?.ok()?;
        first.as_ref().map(|snapshot| snapshot.number)
    }

    fn request_collection(&self) {
        let _ = self.wanted.send(()); // the collector's thread ends with the process
    }
}

fn collect(
    mut exporter: Exporter,
    web: &Mutex<Option<WebConfigStatus>>,
    requests: &Receiver<()>,
    publish: &watch::Sender<Option<Arc<NumberedSnapshot>>>,
) {
    let mut number = 0;
    while requests.recv().is_ok() {
        let is_fresh =
            publish.borrow().as_ref().is_some_and(|latest| latest.done.elapsed() < MAX_SNAPSHOT_AGE);
        if is_fresh {
            continue; // requested while the latest one was being collected
        }
        number += 1;
        let mut report = exporter.collect();
        let status = *web.lock().unwrap_or_else(PoisonError::into_inner);
        status.inspect(|status| status.write_families(&mut report));
        let snapshot = NumberedSnapshot { number, done: Instant::now(), report };
        let former = publish.send_replace(Some(Arc::new(snapshot)));
        // The waiting requests are being served now. Free the former tens of thousands of series afterwards.
        thread::sleep(ENCODE_MARGIN);
        drop(former);
    }
}

impl NumberedSnapshot {
    /// Encodes the snapshot, again for each request.
    pub(crate) async fn text(self: &Arc<Self>, kind: SnapshotEncoding) -> Vec<u8> {
        let snapshot = self.clone();
        spawn_blocking(move || snapshot.encode(kind)).await.unwrap_or_default().into()
    }

    fn encode(&self, kind: SnapshotEncoding) -> String {
        match kind {
            SnapshotEncoding::Text => self.report.exposition.encode(ExpositionFormat::Text),
            SnapshotEncoding::OpenMetrics => self.report.exposition.encode(ExpositionFormat::OpenMetrics),
            // Serialization of numbers and strings does not fail.
            SnapshotEncoding::Node => {
                serde_json::to_string(&NodeView::from(&self.report)).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests;
