//! Runs all benchmarks one after the other in every round, in random order.

use std::{
    error::Error,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A program that creates an attachment and removes it.
pub trait Benchmark {
    /// The name in the report, such as `silkrail`.
    fn name(&self) -> &str;

    /// Creates or removes the attachment. Returns the duration of the call.
    ///
    /// # Errors
    /// If the call fails.
    fn call(&mut self, verb: BenchStep) -> Result<Duration, Box<dyn Error>>;
}

/// The operation to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchStep {
    /// Creates the attachment.
    Add,
    /// Removes the attachment.
    Del,
}

/// Number of rounds before the measurement, which are not counted.
const WARM_UP: usize = 5;

/// The durations of a benchmark's calls.
#[derive(Debug)]
pub struct CallTimes {
    /// The name of the benchmark.
    pub name: String,
    /// Durations of its ADDs.
    pub add: Durations,
    /// Durations of its DELs.
    pub del: Durations,
}

/// Durations in ascending order.
#[derive(Debug)]
pub struct Durations(Vec<Duration>);

/// Calls ADD and DEL of every benchmark in every round.
///
/// # Errors
/// The error of the first call that fails.
pub fn race<R: Benchmark>(racers: &mut [R], rounds: usize) -> Result<Vec<CallTimes>, Box<dyn Error>> {
    let mut samples: Vec<_> = racers.iter().map(|_| (Vec::new(), Vec::new())).collect();
    for round in 0..WARM_UP.min(rounds) + rounds {
        for index in shuffled(racers.len()) {
            let add = racers[index].call(BenchStep::Add)?;
            let del = racers[index].call(BenchStep::Del)?;
            if round >= WARM_UP.min(rounds) {
                samples[index].0.push(add);
                samples[index].1.push(del);
            }
        }
    }
    let times = racers.iter().zip(samples);
    Ok(times
        .map(|(racer, (add, del))| CallTimes {
            name: racer.name().to_owned(),
            add: add.into(),
            del: del.into(),
        })
        .collect())
}

/// Returns the numbers below `count` in random order.
fn shuffled(count: usize) -> Vec<usize> {
    let random = RandomState::new();
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by_cached_key(|number| random.hash_one(number));
    numbers
}

impl From<Vec<Duration>> for Durations {
    fn from(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }
}

impl Durations {
    /// Returns the median.
    pub fn median(&self) -> Duration {
        self.part(50)
    }

    /// Returns the 95th percentile.
    pub fn p95(&self) -> Duration {
        self.part(95)
    }

    fn part(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }
}
