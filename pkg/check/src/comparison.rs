//! Comparison of two results of the same test.

use serde::Serialize;

use crate::{TestKind, test_result::TestResult};

/// Default threshold: a value that is worse by more percent is a regression.
pub const THRESHOLD_PERCENT: f64 = 10.0;

/// The comparison of two results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The ID of the earlier result.
    pub before: u64,
    /// The ID of the later result.
    pub after: u64,
    /// The average of the earlier result: Gb/s for bandwidth, microseconds for latency.
    pub value_before: f64,
    /// The average of the later result, in the same unit.
    pub value_after: f64,
    /// The change in percent; positive if the value increased.
    pub change_percent: f64,
    /// Whether the value got worse by more than the threshold.
    pub regression: bool,
}

/// Why two results cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// The results are of different tests.
    #[error(
        "results {0} and {1} are of different tests (kind, operation, size, queue pairs, options or ports differ); use --any to compare them"
    )]
    Different(u64, u64),
    /// There is no earlier result of the same test.
    #[error("no earlier result of the same test as the last result")]
    Alone,
    /// The history is empty.
    #[error("no stored results; run `silkrail check bw HOST` first")]
    Empty,
    /// A result has no average, or it is 0.
    #[error("result {0} has no value")]
    NoValue(u64),
}

/// Compares two results. Higher bandwidth and lower latency are better.
///
/// # Errors
/// [`CompareError`] if the tests differ. With `any`, only their kinds must be the same.
pub fn compare(
    before: &TestResult,
    after: &TestResult,
    threshold: f64,
    any: bool,
) -> Result<Comparison, CompareError> {
    let same = if any { before.test.kind == after.test.kind } else { before.series() == after.series() };
    if !same {
        return Err(CompareError::Different(before.id, after.id));
    }
    let value = |record: &TestResult| {
        record.value().filter(|value| *value > 0.0).ok_or(CompareError::NoValue(record.id))
    };
    let (old, new) = (value(before)?, value(after)?);
    let change_percent = (new - old) / old * 100.0;
    let worse = match after.test.kind {
        TestKind::Bandwidth => -change_percent,
        TestKind::Latency => change_percent,
    };
    Ok(Comparison {
        before: before.id,
        after: after.id,
        value_before: old,
        value_after: new,
        change_percent,
        regression: worse > threshold,
    })
}

/// Returns the last result, preceded by the previous result of the same test.
///
/// # Errors
/// [`CompareError::Empty`], [`CompareError::Alone`].
pub fn last_two(records: &[TestResult]) -> Result<(&TestResult, &TestResult), CompareError> {
    let (last, earlier) = records.split_last().ok_or(CompareError::Empty)?;
    let before = earlier.iter().rev().find(|record| record.series() == last.series());
    before.map(|before| (before, last)).ok_or(CompareError::Alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        perftest::{Latency, Measurement},
        test_result::tests::record,
    };

    fn latency(average_us: f64) -> TestResult {
        let latency = Some(Latency { average_us, ..Latency::default() });
        let mut record = record(1.0);
        (record.test.kind, record.measurement) =
            (TestKind::Latency, Measurement { latency, ..Measurement::default() });
        record
    }

    #[test]
    fn ten_percent_less_bandwidth_is_a_regression_and_more_bandwidth_is_not() {
        let of = |before, after| compare(&record(before), &record(after), THRESHOLD_PERCENT, false).unwrap();
        assert!(of(100.0, 89.0).regression);
        assert!(!of(100.0, 91.0).regression);
        assert!(!of(100.0, 90.0).regression, "not more than ten");
        assert!(!of(100.0, 200.0).regression);
        assert_eq!(of(100.0, 89.0).change_percent.round(), -11.0);
        let none = compare(&record(100.0), &TestResult { id: 7, ..record(0.0) }, THRESHOLD_PERCENT, false);
        assert_eq!(none, Err(CompareError::NoValue(7)));
    }

    #[test]
    fn more_latency_is_a_regression() {
        let of =
            |before, after| compare(&latency(before), &latency(after), THRESHOLD_PERCENT, false).unwrap();
        assert!(of(2.0, 2.3).regression);
        assert!(!of(2.0, 1.0).regression);
    }

    #[test]
    fn different_tests_are_compared_only_with_any() {
        let mut other = record(1.0);
        other.server.node = "node-c".into();
        assert_eq!(compare(&record(1.0), &other, 10.0, false), Err(CompareError::Different(0, 0)));
        let mut one = record(1.0);
        one.test.queue_pairs = crate::QueuePairs::LATENCY_DEFAULT;
        assert_eq!(compare(&record(9.0), &one, 10.0, false), Err(CompareError::Different(0, 0)));
        assert!(compare(&record(1.0), &other, 10.0, true).is_ok());
        assert!(compare(&record(1.0), &latency(1.0), 10.0, true).is_err());
    }

    #[test]
    fn the_last_result_is_compared_with_the_one_before_it_of_the_same_test() {
        let mut records = vec![record(1.0), record(2.0), latency(3.0), record(4.0)];
        for (record, id) in records.iter_mut().zip(1..) {
            record.id = id;
        }
        let (before, last) = last_two(&records).unwrap();
        assert_eq!((before.id, last.id), (2, 4));
        assert_eq!(last_two(&records[..3]), Err(CompareError::Alone));
        assert_eq!(last_two(&[]), Err(CompareError::Empty));
    }
}
