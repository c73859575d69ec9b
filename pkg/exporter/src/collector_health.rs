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
    told: HashSet<(Collector, ErrorReason, String)>,
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
        troubles: &[CollectError],
        spent: &CollectorTimes,
    ) -> BTreeMap<Collector, CollectorStatus> {
        let mut told = HashSet::new();
        for trouble in troubles {
            *self.errors.entry((trouble.collector, trouble.reason)).or_default() += 1;
            // The text after the colon contains durations and other details that change.
            let subject = trouble.what.split(": ").next().unwrap_or_default().to_owned();
            let key = (trouble.collector, trouble.reason, subject);
            if !self.told.contains(&key) && !told.contains(&key) {
                tracing::warn!(collector = %trouble.collector, reason = trouble.reason.name(), "{}", trouble.what);
            }
            told.insert(key);
        }
        self.told = told;
        collectors.iter().map(|collector| (collector, self.outcome(collector, troubles, spent))).collect()
    }

    fn outcome(
        &mut self,
        collector: Collector,
        troubles: &[CollectError],
        spent: &CollectorTimes,
    ) -> CollectorStatus {
        let succeeded = !troubles.iter().any(|t| t.collector == collector && t.reason.counts_as_failure());
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
        let trouble = |reason| CollectError { collector: Collector::HwCounters, reason, what: "x: y".into() };
        let troubles =
            [trouble(ErrorReason::Timeout), trouble(ErrorReason::Timeout), trouble(ErrorReason::Unsupported)];
        let outcomes = health.record(CollectorSet::default(), &troubles, &CollectorTimes::default());
        assert!(!outcomes[&Collector::HwCounters].succeeded && outcomes[&Collector::Counters].succeeded);
        assert_eq!(outcomes[&Collector::HwCounters].last_success, None);
        assert!(outcomes[&Collector::Counters].last_success.is_some());
        assert!(!outcomes.contains_key(&Collector::Psn), "not enabled");
        let errors: Vec<_> = health.errors().map(|((_, reason), count)| (reason.name(), count)).collect();
        assert_eq!(errors, [("unsupported", 1), ("timeout", 2)]);
    }
}
