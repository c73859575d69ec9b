//! When the workers end.

use std::time::{Duration, Instant};

use crate::counts::CallCounts;

/// How much longer than its time a run may take until every kind of call has occurred.
const EXTENSION: Duration = Duration::from_secs(240);

/// The end of a run: its time is over, and every kind of call has occurred.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunEnd(Instant);

impl RunEnd {
    /// Begins the time.
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Whether it has come.
    pub(crate) fn has_come(self, counts: &CallCounts) -> bool {
        let now = Instant::now();
        now >= self.0 && (counts.are_complete() || now >= self.0 + EXTENSION)
    }
}
