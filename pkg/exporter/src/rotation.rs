//! A rotation over readings that are costly: each collection reads the oldest few again.

use std::time::{Duration, Instant};

/// Selects the oldest readings, so that each is read again in a period, and a collection does not read all of them.
#[derive(Debug)]
pub(crate) struct Rotation {
    period: Duration,
    pub(crate) last: Option<Instant>,
}

impl Rotation {
    /// Creates a rotation in which each reading is at most as old as `period`, if there are collections in it.
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, last: None }
    }

    /// Returns a time: readings from before it are due. `read` contains the time of each reading.
    pub(crate) fn due_before(&mut self, mut read: Vec<Instant>) -> Instant {
        read.sort_unstable();
        read.get(self.at_a_time(read.len())).copied().unwrap_or_else(Instant::now)
    }

    /// Returns the number of readings that are due in this collection.
    fn at_a_time(&mut self, readings: usize) -> usize {
        let elapsed = self.last.replace(Instant::now()).map_or(Duration::ZERO, |last| last.elapsed());
        let share = readings as u128 * elapsed.min(self.period).as_millis() / self.period.as_millis() + 1;
        usize::try_from(share).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn old_readings_are_due_a_few_at_a_time_and_all_within_a_period() {
        let read: Vec<_> = (0..256).map(|n| ago(1000 + n)).collect();
        let mut rotation = Rotation::new(Duration::from_secs(600));
        let mut due = |last| {
            rotation.last = last;
            let before = rotation.due_before(read.clone());
            read.iter().filter(|read| **read < before).count()
        };
        assert_eq!(due(None), 1);
        assert_eq!(due(Some(ago(60))), 26, "a tenth of the period has passed");
        assert_eq!(due(Some(ago(86400))), 256);
    }
}
