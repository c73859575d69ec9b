//! Input of `silkrail check`: the output of programs, and lines of other nodes.

use check::{
    TestKind,
    collective::{Collective, CollectiveLibrary, parse},
    exposition, history_page,
    perftest::{Measurement, parse as parse_perftest},
    protocol::{AgentReply, AgentRequest},
    test_result::TestResult,
};
use serde::{Serialize, de::DeserializeOwned};

/// One input, read in every format.
pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for kind in [TestKind::Bandwidth, TestKind::Latency] {
        let _ = parse_perftest(kind, &text).inspect(|measured| assert_positive(kind, measured));
    }
    for library in [CollectiveLibrary::Nccl, CollectiveLibrary::Hccl] {
        if let Ok(curve) = parse(library, Collective::AllReduce, &text) {
            assert!(
                curve.plateau_gbs().is_finite() && curve.points.iter().all(|point| point.time_us.is_finite())
            );
        }
    }
    for line in input.split(|byte| *byte == b'\n') {
        assert_readable::<AgentRequest>(line);
        assert_readable::<AgentReply>(line);
        if let Some(record) = assert_readable::<TestResult>(line) {
            let _ = (record.value(), record.series(), record.mismatch());
            let records = [record];
            let _ = exposition::text(&records);
            let page = history_page::page(&records);
            assert_eq!(page.matches("<h1>").count(), 1, "names are not markup: {page}");
            assert!(!page.contains("<script"), "{page}");
        }
    }
}

/// Asserts that the value is finite and positive.
fn assert_positive(kind: TestKind, measured: &Measurement) {
    let value = match kind {
        TestKind::Bandwidth => measured.bandwidth.map(|bandwidth| bandwidth.average_gbps),
        TestKind::Latency => measured.latency.map(|latency| latency.average_us),
    };
    assert!(value.is_some_and(|value| value.is_finite() && value > 0.0), "{measured:?}");
}

/// Asserts that the written value can be read. It may differ in the last digit of a fraction.
fn assert_readable<T: Serialize + DeserializeOwned>(line: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(line).ok()?;
    let again = serde_json::to_vec(&value).unwrap();
    assert!(serde_json::from_slice::<T>(&again).is_ok(), "{}", String::from_utf8_lossy(&again));
    Some(value)
}
