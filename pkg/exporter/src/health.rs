//! How the collectors are.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, SystemTime},
};

use crate::{Collector, Collectors, Reason, Trouble, collector::Spent};

/// How the collectors are, over time.
#[derive(Debug, Default)]
pub(crate) struct Health {
    errors: BTreeMap<(Collector, Reason), u64>,
    last_success: BTreeMap<Collector, SystemTime>,
    told: HashSet<(Collector, Reason, String)>,
}

/// How a collector did its work this time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Whether it could read everything.
    pub succeeded: bool,
    /// How long it took, added up over all devices.
    pub spent: Duration,
    /// When it could read everything for the last time.
    pub last_success: Option<SystemTime>,
}

impl Health {
    /// Takes down what went wrong, and says each new trouble once in the log.
    pub(crate) fn note(
        &mut self,
        collectors: Collectors,
        troubles: &[Trouble],
        spent: &Spent,
    ) -> BTreeMap<Collector, Outcome> {
        let mut told = HashSet::new();
        for trouble in troubles {
            *self.errors.entry((trouble.collector, trouble.reason)).or_default() += 1;
            // What follows the colon tells how long it has lasted, and more that changes.
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

    fn outcome(&mut self, collector: Collector, troubles: &[Trouble], spent: &Spent) -> Outcome {
        let succeeded = !troubles.iter().any(|t| t.collector == collector && t.reason.is_failure());
        if succeeded {
            self.last_success.insert(collector, SystemTime::now());
        }
        let last_success = self.last_success.get(&collector).copied();
        Outcome { succeeded, spent: spent.of(collector), last_success }
    }

    /// How often each collector failed for each reason.
    pub(crate) fn errors(&self) -> impl Iterator<Item = ((Collector, Reason), u64)> {
        self.errors.iter().map(|(key, count)| (*key, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_fails_for_itself_alone() {
        let mut health = Health::default();
        let trouble = |reason| Trouble { collector: Collector::HwCounters, reason, what: "x: y".into() };
        let troubles = [trouble(Reason::Timeout), trouble(Reason::Timeout), trouble(Reason::Unsupported)];
        let outcomes = health.note(Collectors::default(), &troubles, &Spent::default());
        assert!(!outcomes[&Collector::HwCounters].succeeded && outcomes[&Collector::Counters].succeeded);
        assert_eq!(outcomes[&Collector::HwCounters].last_success, None);
        assert!(outcomes[&Collector::Counters].last_success.is_some());
        assert!(!outcomes.contains_key(&Collector::Psn), "it does not run");
        let errors: Vec<_> = health.errors().map(|((_, reason), count)| (reason.name(), count)).collect();
        assert_eq!(errors, [("unsupported", 1), ("timeout", 2)]);
    }
}
