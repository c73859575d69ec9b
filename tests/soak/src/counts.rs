//! What happened, counted.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Mutex,
    time::{Duration, Instant},
};

use testkit::Answer;

/// Counts of calls by what became of them, and whatever is wrong.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    counts: Mutex<BTreeMap<String, usize>>,
    slowest: Mutex<BTreeMap<&'static str, Duration>>,
    wrong: Mutex<Vec<String>>,
}

impl CallCounts {
    /// Makes a call, counts it and returns its answer.
    pub(crate) fn call(&self, what: &'static str, call: impl FnOnce() -> Answer) -> Answer {
        let began = Instant::now();
        let answer = call();
        let took = began.elapsed();
        let became = if answer.status.success() {
            "succeeded".to_owned()
        } else if answer.was_killed() {
            "killed".to_owned()
        } else {
            format!("refused with code {}", answer.refusal().code)
        };
        *self.counts.lock().unwrap().entry(format!("{what} {became}")).or_default() += 1;
        let mut slowest = self.slowest.lock().unwrap();
        let slowest = slowest.entry(what).or_default();
        *slowest = took.max(*slowest);
        answer
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    /// Looks whether the state that is there before the GC is of attachments that have had no DEL. What a DEL forgets,
    /// the GC after it would find.
    pub(crate) fn nothing_else_is_left(&self, difference: &str, without_del: &[String]) {
        // As part of an attachment's name, or by itself in the claim of a device.
        let names =
            |line: &str, id: &str| line.contains(&format!("{id}@")) || line.contains(&format!("\"{id}\""));
        let is_theirs = |line: &str| without_del.iter().any(|id| names(line, id));
        let state = difference.lines().filter(|line| line.starts_with("+ state/"));
        for line in state.filter(|line| !is_theirs(line)) {
            self.wrong(format!("its DEL has left this: {line}"));
        }
    }

    /// Something is wrong.
    pub(crate) fn wrong(&self, what: String) {
        eprintln!("WRONG: {what}");
        self.wrong.lock().unwrap().push(what);
    }

    /// Whether nothing is wrong, and enough happened to say so.
    pub(crate) fn is_good(&self) -> bool {
        let counts = self.counts.lock().unwrap();
        let happened =
            ["ADD succeeded", "ADD killed", "DEL succeeded", "DEL killed", "namespaces ended early"];
        happened.iter().all(|what| counts.iter().any(|(key, count)| key.contains(what) && *count > 0))
            && self.wrong.lock().unwrap().is_empty()
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
        let wrong = self.wrong.lock().unwrap();
        wrong.iter().try_for_each(|what| writeln!(f, "WRONG: {what}"))?;
        write!(f, "{:>8}  wrong", wrong.len())
    }
}
