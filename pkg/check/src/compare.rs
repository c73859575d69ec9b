//! Two results of the same test: did it get worse?

use serde::Serialize;

use crate::{TestKind, record::TestResult};

/// A change of so many percent for the worse is a regression, if nobody says otherwise.
pub const THRESHOLD_PERCENT: f64 = 10.0;

/// Two results beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The earlier one.
    pub before: u64,
    /// The later one.
    pub after: u64,
    /// Its value: Gb/s, or microseconds.
    pub value_before: f64,
    /// The other's.
    pub value_after: f64,
    /// By how many percent it grew.
    pub change_percent: f64,
    /// Whether it got worse by more than may be.
    pub regression: bool,
}

/// Why two results cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// They are of different tests.
    #[error(
        "results {0} and {1} are of different tests: kind, operation, size, queue pairs, or ports differ; compare them with --any"
    )]
    Different(u64, u64),
    /// There are not two of the same test.
    #[error("there is no earlier result of the same test as the last one")]
    Alone,
    /// There are no results at all.
    #[error("no results are kept; run `silkrail check bw HOST` first")]
    Empty,
    /// A result without a value.
    #[error("result {0} has no value")]
    NoValue(u64),
}

/// Compares two results. More bandwidth is better, less latency is.
///
/// # Errors
/// [`CompareError`], unless `any` two may be compared that are of one kind.
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

/// The last result and the one before it of the same test.
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
        record::tests::record,
    };

    fn latency(average_us: f64) -> TestResult {
        let latency = Some(Latency { average_us, ..Latency::default() });
        let mut record = record(1.0);
        (record.test.kind, record.measurement) =
            (TestKind::Latency, Measurement { latency, ..Measurement::default() });
        record
    }

    #[test]
    fn a_tenth_less_bandwidth_is_a_regression_and_more_is_not() {
        let of = |before, after| compare(&record(before), &record(after), THRESHOLD_PERCENT, false).unwrap();
        assert!(of(100.0, 89.0).regression);
        assert!(!of(100.0, 91.0).regression);
        assert!(!of(100.0, 200.0).regression);
        assert_eq!(of(100.0, 89.0).change_percent.round(), -11.0);
    }

    #[test]
    fn more_latency_is_a_regression() {
        let of =
            |before, after| compare(&latency(before), &latency(after), THRESHOLD_PERCENT, false).unwrap();
        assert!(of(2.0, 2.3).regression);
        assert!(!of(2.0, 1.0).regression);
    }

    #[test]
    fn different_tests_are_not_compared_unasked() {
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
