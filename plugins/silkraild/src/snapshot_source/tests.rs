//! The age of the snapshots that requests get.

use std::time::SystemTime;

use clap::Parser;
use exporter::NoWorkloadResolver;

use super::*;
use crate::cli::SilkraildCli;

/// A source whose collector is this test.
struct SourceTest {
    source: SnapshotSource,
    requests: Receiver<()>,
    publish: watch::Sender<Option<Arc<NumberedSnapshot>>>,
}

impl SourceTest {
    fn new() -> Self {
        let (wanted, requests) = channel();
        let (publish, latest) = watch::channel(None);
        Self { source: SnapshotSource { wanted, latest, web: Arc::default() }, requests, publish }
    }

    /// Publishes a snapshot that was done some time ago.
    fn publish(&self, number: u64, age: Duration) {
        self.publish_done(number, Instant::now().checked_sub(age).unwrap());
    }

    /// Publishes a snapshot that is recent for an hour.
    fn publish_recent(&self, number: u64) {
        self.publish_done(number, Instant::now() + Duration::from_secs(3600));
    }

    fn publish_done(&self, number: u64, done: Instant) {
        let report = NodeSnapshot::new("n".into(), SystemTime::now());
        self.publish.send_replace(Some(Arc::new(NumberedSnapshot { number, done, report })));
    }

    /// Returns the number of the snapshot that a request gets, if the collector publishes another one meanwhile.
    async fn number(&self, published: Option<u64>) -> Option<u64> {
        let publish = async {
            tokio::task::yield_now().await;
            if let Some(number) = published {
                self.publish(number, Duration::ZERO);
            }
        };
        let (snapshot, ()) = tokio::join!(self.source.snapshot(Duration::from_secs(3)), publish);
        snapshot.map(|snapshot| snapshot.number)
    }

    fn was_requested(&self) -> bool {
        self.requests.try_iter().count() == 1
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_gets_a_newer_snapshot_than_the_former_or_the_former_one_in_time() {
    let test = SourceTest::new();
    assert_eq!(test.number(None).await, None, "before the first");
    assert!(test.was_requested());
    assert_eq!(test.number(Some(1)).await, Some(1));
    assert!(test.was_requested());
    test.publish(1, MAX_SNAPSHOT_AGE);
    let began = tokio::time::Instant::now();
    assert_eq!(test.number(Some(2)).await, Some(2), "the former one is no new one");
    assert!(test.was_requested() && began.elapsed() < Duration::from_secs(3));
    test.publish(2, MAX_SNAPSHOT_AGE);
    assert_eq!(test.number(None).await, Some(2));
    assert!(test.was_requested() && began.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_recent_snapshot_is_served_again_without_a_collection() {
    let test = SourceTest::new();
    test.publish_recent(7);
    assert_eq!(test.number(None).await, Some(7));
    assert!(!test.was_requested());
}

#[tokio::test(start_paused = true)]
async fn a_probe_needs_any_snapshot_and_no_collection() {
    let test = SourceTest::new();
    assert_eq!(test.source.first_number(Duration::from_secs(3)).await, None);
    test.publish(4, Duration::from_secs(3600));
    assert_eq!(test.source.first_number(Duration::from_secs(3)).await, Some(4));
    assert_eq!(test.requests.try_iter().count(), 0);
}

#[test]
fn requests_during_a_collection_need_no_other_one_and_snapshots_have_the_current_web_status() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let cli =
        SilkraildCli::parse_from(["silkraild", "--root", path, "--state-dir", path, "--node-name", "n"]);
    let test = SourceTest::new();
    let collected = || {
        let exporter = Exporter::new(cli.settings().unwrap(), Arc::new(NoWorkloadResolver));
        let (wanted, requests) = channel();
        wanted.send(()).unwrap();
        drop(wanted);
        collect(exporter, &test.source.web, &requests, &test.publish);
        test.source.latest.borrow().clone().unwrap()
    };
    for is_well in [true, false] {
        let status = format!(r#"{{"is_well": {is_well}, "since": {{"secs": 1, "nanos": 0}}}}"#);
        test.source.set_web(serde_json::from_str(&status).unwrap());
        test.publish(9, MAX_SNAPSHOT_AGE);
        let snapshot = collected();
        assert_eq!(snapshot.number, 1);
        let expected = format!("_last_reload_successful{{node=\"n\"}} {}\n", u8::from(is_well));
        assert!(snapshot.encode(SnapshotEncoding::Text).contains(&expected));
    }
    test.publish_recent(9);
    assert_eq!(collected().number, 9, "it was collected after the request");
}
