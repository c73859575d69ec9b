//! Counts of the calls and their outcomes.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

use testkit::Answer;

/// Numbers of calls by outcome, and the errors found.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    counts: Mutex<BTreeMap<String, usize>>,
    slowest: Mutex<BTreeMap<&'static str, Duration>>,
    errors: Mutex<Vec<String>>,
}

impl CallCounts {
    /// Makes a call, counts its outcome and returns its answer.
    pub(crate) fn call(&self, what: &'static str, call: impl FnOnce() -> Answer) -> Answer {
        let began = Instant::now();
        let answer = call();
        let took = began.elapsed();
        let outcome = if answer.status.success() {
            "succeeded".to_owned()
        } else if answer.was_killed() {
            "killed".to_owned()
        } else {
            format!("refused with code {}", answer.refusal().code)
        };
        *self.counts.lock().unwrap().entry(format!("{what} {outcome}")).or_default() += 1;
        let mut slowest = self.slowest.lock().unwrap();
        let slowest = slowest.entry(what).or_default();
        *slowest = took.max(*slowest);
        answer
    }

    /// Counts an event, for example `namespaces ended early`.
    pub(crate) fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    /// Checks, before the GC, that all state that is left belongs to attachments without a DEL. The GC would remove state that
    /// a DEL has left.
    pub(crate) fn nothing_else_is_left(&self, difference: &str, without_del: &[String]) {
        // As part of an attachment's name, or alone in the claim of a device.
        let names =
            |line: &str, id: &str| line.contains(&format!("{id}@")) || line.contains(&format!("\"{id}\""));
        let is_expected = |line: &str| without_del.iter().any(|id| names(line, id));
        let state = difference.lines().filter(|line| line.starts_with("+ state/"));
        for line in state.filter(|line| !is_expected(line)) {
            self.error(format!("left by a DEL: {line}"));
        }
    }

    /// Prints and records an error.
    pub(crate) fn error(&self, what: String) {
        eprintln!("ERROR: {what}");
        self.errors.lock().unwrap().push(what);
    }

    /// Returns whether there was no error, and every kind of event occurred.
    pub(crate) fn passed(&self) -> bool {
        self.are_complete() && self.errors.lock().unwrap().is_empty()
    }

    /// Returns whether every kind of event occurred.
    pub(crate) fn are_complete(&self) -> bool {
        let counts = self.counts.lock().unwrap();
        let required =
            ["ADD succeeded", "ADD killed", "DEL succeeded", "DEL killed", "namespaces ended early"];
        required.iter().all(|what| counts.iter().any(|(key, count)| key.contains(what) && *count > 0))
    }
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &*self.counts.lock().unwrap() {
            writeln!(f, "{count:>8}  {what}")?;
        }
        for (what, took) in &*self.slowest.lock().unwrap() {
            writeln!(f, "{:>6.1} s  the slowest {what}", took.as_secs_f64())?;
        }
        let errors = self.errors.lock().unwrap();
        errors.iter().try_for_each(|what| writeln!(f, "ERROR: {what}"))?;
        write!(f, "{:>8}  errors", errors.len())
    }
}
