//! How long the steps of a call took.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// The steps of a call and their durations, in the order in which they ended.
#[derive(Debug, Clone, Default)]
pub struct StepTimes {
    steps: Vec<(&'static str, Duration)>,
}

impl StepTimes {
    /// Runs a step and measures it.
    pub fn time<T>(&mut self, step: &'static str, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let value = run();
        self.push(step, began.elapsed());
        value
    }

    /// Adds a step that has ended. A step that is repeated is listed once, with the total duration.
    pub fn push(&mut self, step: &'static str, took: Duration) {
        match self.steps.iter_mut().find(|(there, _)| *there == step) {
            Some((_, total)) => *total += took,
            None => self.steps.push((step, took)),
        }
    }

    /// Adds the steps of another list.
    pub fn extend(&mut self, others: &Self) {
        others.steps.iter().for_each(|(step, took)| self.push(step, *took));
    }

    /// Returns the total duration.
    pub fn total(&self) -> Duration {
        self.steps.iter().map(|(_, took)| *took).sum()
    }
}

impl fmt::Display for StepTimes {
    /// Writes `claim=0.3ms,link=2.1ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (step, took)) in self.steps.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{step}={}", Milliseconds(*took))?;
        }
        Ok(())
    }
}

/// A duration in milliseconds with one decimal: `12.3ms`.
#[derive(Debug, Clone, Copy)]
pub struct Milliseconds(pub Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0.as_micros() + 50) / 100;
        write!(f, "{}.{}ms", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_in_milliseconds_and_repeated_ones_once() {
        let mut steps = StepTimes::default();
        steps.push("claim", Duration::from_micros(349));
        steps.push("link", Duration::from_millis(2));
        steps.push("claim", Duration::from_micros(1));
        assert_eq!(steps.to_string(), "claim=0.4ms,link=2.0ms");
        assert_eq!(steps.total(), Duration::from_micros(2350));
        let mut all = StepTimes::default();
        all.push("note", Duration::from_millis(1));
        all.extend(&steps);
        all.extend(&steps);
        assert_eq!(all.to_string(), "note=1.0ms,claim=0.7ms,link=4.0ms");
        assert_eq!(steps.time("wait", || 5), 5);
        assert_eq!(Milliseconds(Duration::from_secs(61)).to_string(), "61000.0ms");
    }
}
