//! The health of the collectors.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, SystemTime},
};

use crate::{CollectError, Collector, CollectorSet, ErrorReason, collector_set::CollectorTimes};

/// Errors and successes of the collectors over time.
#[derive(Debug, Default)]
pub(crate) struct CollectorHealth {
    errors: BTreeMap<(Collector, ErrorReason), u64>,
    last_success: BTreeMap<Collector, SystemTime>,
    logged: HashSet<(Collector, ErrorReason, String)>,
}

/// The result of a collector in one collection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollectorStatus {
    /// Whether the collector read everything.
    pub succeeded: bool,
    /// The time that it took, summed over all devices.
    pub spent: Duration,
    /// The time of the last collection in which it read everything.
    pub last_success: Option<SystemTime>,
}

impl CollectorHealth {
    /// Records the errors of a collection, and logs each new error once.
    pub(crate) fn record(
        &mut self,
        collectors: CollectorSet,
        errors: &[CollectError],
        spent: &CollectorTimes,
    ) -> BTreeMap<Collector, CollectorStatus> {
        let mut logged = HashSet::new();
        for error in errors {
            *self.errors.entry((error.collector, error.reason)).or_default() += 1;
            // The text after the colon contains durations and other details that change.
            let subject = error.what.split(": ").next().unwrap_or_default().to_owned();
            let key = (error.collector, error.reason, subject);
            if !self.logged.contains(&key) && !logged.contains(&key) {
                tracing::warn!(collector = %error.collector, reason = error.reason.name(), "{}", error.what);
            }
            logged.insert(key);
        }
        self.logged = logged;
        collectors.iter().map(|collector| (collector, self.outcome(collector, errors, spent))).collect()
    }

    fn outcome(
        &mut self,
        collector: Collector,
        errors: &[CollectError],
        spent: &CollectorTimes,
    ) -> CollectorStatus {
        let succeeded = !errors.iter().any(|t| t.collector == collector && t.reason.counts_as_failure());
        if succeeded {
            self.last_success.insert(collector, SystemTime::now());
        }
        let last_success = self.last_success.get(&collector).copied();
        CollectorStatus { succeeded, spent: spent.of(collector), last_success }
    }

    /// Returns the number of errors by collector and reason.
    pub(crate) fn errors(&self) -> impl Iterator<Item = ((Collector, ErrorReason), u64)> {
        self.errors.iter().map(|(key, count)| (*key, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_affects_only_its_collector() {
        let mut health = CollectorHealth::default();
        let error = |reason| CollectError { collector: Collector::HwCounters, reason, what: "x: y".into() };
        let errors =
            [error(ErrorReason::Timeout), error(ErrorReason::Timeout), error(ErrorReason::Unsupported)];
        let outcomes = health.record(CollectorSet::default(), &errors, &CollectorTimes::default());
        assert!(!outcomes[&Collector::HwCounters].succeeded && outcomes[&Collector::Counters].succeeded);
        assert_eq!(outcomes[&Collector::HwCounters].last_success, None);
        assert!(outcomes[&Collector::Counters].last_success.is_some());
        assert!(!outcomes.contains_key(&Collector::Psn), "not enabled");
        let errors: Vec<_> = health.errors().map(|((_, reason), count)| (reason.name(), count)).collect();
        assert_eq!(errors, [("unsupported", 1), ("timeout", 2)]);
    }

    #[test]
    fn the_last_success_remains_while_a_collector_fails_and_errors_add_up() {
        let mut health = CollectorHealth::default();
        let mut record = |errors: &[ErrorReason], spent| {
            let error = |reason: &ErrorReason| CollectError {
                collector: Collector::Gids,
                reason: *reason,
                what: "x: y".into(),
            };
            let errors: Vec<_> = errors.iter().map(error).collect();
            let mut times = CollectorTimes::default();
            times.add(Collector::Gids, Duration::from_secs(spent));
            let same = times;
            times.add_all(&same);
            health.record(CollectorSet::none().with(Collector::Gids), &errors, &times)[&Collector::Gids]
        };
        let well = record(&[ErrorReason::Unsupported], 1);
        assert!(well.succeeded && well.spent == Duration::from_secs(2));
        for _ in 0..2 {
            let failed = record(&[ErrorReason::Unsupported, ErrorReason::Timeout], 0);
            assert_eq!((failed.succeeded, failed.last_success), (false, well.last_success));
        }
        let again = record(&[], 0);
        assert!(again.succeeded && again.last_success > well.last_success);
        let errors: Vec<_> = health.errors().map(|((_, reason), count)| (reason.name(), count)).collect();
        assert_eq!(errors, [("unsupported", 3), ("timeout", 2)]);
    }
}
