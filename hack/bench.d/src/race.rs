//! Contenders one after the other in every round, in an order that chance decides.

use std::{
    error::Error,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use crate::contender::{Contender, Verb};

/// Rounds that do not count.
const WARM_UP: usize = 5;

/// How long a contender's calls took.
pub(crate) struct Times {
    pub(crate) name: String,
    pub(crate) add: Sample,
    pub(crate) del: Sample,
}

/// Durations, shortest first.
pub(crate) struct Sample(Vec<Duration>);

/// Lets every contender make and take back an attachment in every round.
pub(crate) fn race(contenders: &mut [Contender], rounds: usize) -> Result<Vec<Times>, Box<dyn Error>> {
    let mut samples: Vec<_> = contenders.iter().map(|_| (Vec::new(), Vec::new())).collect();
    for round in 0..WARM_UP.min(rounds) + rounds {
        for index in shuffled(contenders.len()) {
            let add = contenders[index].call(Verb::Add)?;
            let del = contenders[index].call(Verb::Del)?;
            if round >= WARM_UP.min(rounds) {
                samples[index].0.push(add);
                samples[index].1.push(del);
            }
        }
    }
    let times = contenders.iter().zip(samples);
    Ok(times
        .map(|(c, (add, del))| Times { name: c.name.clone(), add: add.into(), del: del.into() })
        .collect())
}

/// The numbers below `count` in an order that chance decides.
fn shuffled(count: usize) -> Vec<usize> {
    let chance = RandomState::new();
    let mut numbers: Vec<usize> = (0..count).collect();
    numbers.sort_by_cached_key(|number| chance.hash_one(number));
    numbers
}

impl From<Vec<Duration>> for Sample {
    fn from(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }
}

impl Sample {
    pub(crate) fn median(&self) -> Duration {
        self.part(50)
    }

    /// What 95 of 100 calls do not exceed.
    pub(crate) fn p95(&self) -> Duration {
        self.part(95)
    }

    fn part(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or_default()
    }
}
