//! How long ADDs take, with and without the API server.

use std::{fmt, sync::Mutex, time::Duration};

/// The durations of ADDs.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    with_api: Mutex<Vec<Duration>>,
    without_api: Mutex<Vec<Duration>>,
}

impl Latencies {
    /// Adds the duration of an ADD.
    pub(crate) fn add(&self, is_api_up: bool, duration: Duration) {
        let durations = if is_api_up { &self.with_api } else { &self.without_api };
        durations.lock().unwrap().push(duration);
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, durations) in [("up", &self.with_api), ("down", &self.without_api)] {
            let mut durations = durations.lock().unwrap().clone();
            if durations.is_empty() {
                continue;
            }
            durations.sort_unstable();
            let at =
                |percent: usize| durations.get(durations.len() * percent / 100).copied().unwrap_or_default();
            let [median, high, highest] = [at(50), at(99), durations.last().copied().unwrap_or_default()];
            write!(
                f,
                "ADD with the API server {what}: {} calls, p50 {median:.1?}, p99 {high:.1?}, highest {highest:.1?}; ",
                durations.len()
            )?;
        }
        Ok(())
    }
}
