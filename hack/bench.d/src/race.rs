//! Racers one after the other in every round, in an order that chance decides.

use std::{
    error::Error,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Whatever makes an attachment and takes it back.
pub trait Benchmark {
    /// What it is called in the report.
    fn name(&self) -> &str;

    /// Makes the attachment or takes it back, and says how long that took.
    ///
    /// # Errors
    /// If it could not.
    fn call(&mut self, verb: BenchStep) -> Result<Duration, Box<dyn Error>>;
}

/// What a racer is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchStep {
    /// To make the attachment.
    Add,
    /// To take it back.
    Del,
}

/// Rounds that do not count.
const WARM_UP: usize = 5;

/// How long a racer's calls took.
#[derive(Debug)]
pub struct CallTimes {
    /// Whose.
    pub name: String,
    /// Of its ADDs.
    pub add: Durations,
    /// Of its DELs.
    pub del: Durations,
}

/// Durations, shortest first.
#[derive(Debug)]
pub struct Durations(Vec<Duration>);

/// Lets every racer make and take back an attachment in every round.
///
/// # Errors
/// Of the first racer that could not.
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

/// The numbers below `count` in an order that chance decides.
fn shuffled(count: usize) -> Vec<usize> {
    let chance = RandomState::new();
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by_cached_key(|number| chance.hash_one(number));
    numbers
}

impl From<Vec<Duration>> for Durations {
    fn from(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }
}

impl Durations {
    /// What half of the calls do not exceed.
    pub fn median(&self) -> Duration {
        self.part(50)
    }

    /// What 95 of 100 calls do not exceed.
    pub fn p95(&self) -> Duration {
        self.part(95)
    }

    fn part(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }
}
