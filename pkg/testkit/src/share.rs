//! The share of each long list of cases that a run takes.

use std::{env, fmt, path::Path, str::FromStr};

/// The environment variable with the share of a run.
const VARIABLE: &str = "SILKRAIL_SWEEP";

/// The environment variable with the directories that the last changes touched, relative to the repository's, separated by spaces.
const TOUCHED: &str = "SILKRAIL_TOUCHED";

/// A share of every long list of cases: `all`, or `SEED/N`, one of N. N runs with consecutive seeds take each case once. A run
/// with the same seed takes the same cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    seed: u64,
    /// The number of shares.
    of: u64,
}

impl Share {
    /// All cases.
    pub const ALL: Self = Self { seed: 0, of: 1 };

    /// The share of this run, from `SILKRAIL_SWEEP`; all without it.
    pub fn of_run() -> Self {
        let share = env::var(VARIABLE).map_or(Ok(Self::ALL), |value| value.parse());
        share.unwrap_or_else(|error| panic!("{VARIABLE}: {error}"))
    }

    /// The share of this run of lists that test the code in these directories: all, if one of them was touched.
    pub fn of_tests_of(directories: &[&str]) -> Self {
        let touched = env::var(TOUCHED).unwrap_or_default();
        if is_touched(&touched, directories) { Self::ALL } else { Self::of_run() }
    }

    /// Whether it is all cases.
    pub fn is_all(self) -> bool {
        self.of == 1
    }

    /// Returns the numbers of its cases in a list, of all in `0..len`. There is at least one: a list with fewer cases than
    /// shares has one share for each case.
    pub fn of_list(self, list: &str, len: usize) -> impl Iterator<Item = usize> {
        let of = self.of.min(u64::try_from(len).unwrap()).max(1);
        (0..len).filter(move |index| Self { of, ..self }.has(list, *index))
    }

    /// Returns the numbers of its steps, from 1 and without end: of a call whose steps are counted only by running it. Its steps
    /// are few, so every fourth is in it at least.
    pub fn steps(self, list: &str) -> impl Iterator<Item = usize> {
        (1..).filter(move |step| Self { of: self.of.min(4), ..self }.has(list, *step))
    }

    /// Whether a case of a list is in it, for lists whose length is not known.
    pub fn has(self, list: &str, index: usize) -> bool {
        // The lists are out of phase: a seed does not take the first cases of all.
        let phase = list.bytes().fold(0, |phase: u64, byte| phase.wrapping_mul(31).wrapping_add(byte.into()));
        let place = u64::try_from(index).unwrap() % self.of + phase % self.of + self.seed % self.of;
        place.is_multiple_of(self.of)
    }
}

/// Whether one of the directories contains one of those that were touched.
fn is_touched(touched: &str, directories: &[&str]) -> bool {
    touched.split_whitespace().any(|touched| directories.iter().any(|it| Path::new(touched).starts_with(it)))
}

/// The text is neither `all` nor `SEED/N`.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidShare(String);

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        let parts = text.split_once('/').and_then(|(seed, of)| Some((seed.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((seed, of)) if of > 0 => Ok(Self { seed, of }),
            _ => Err(InvalidShare(text.to_owned())),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() { f.write_str("all") } else { write!(f, "{}/{}", self.seed, self.of) }
    }
}

impl fmt::Display for InvalidShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a share: expected `all`, or SEED/N, for example 591/12", self.0)
    }
}

impl std::error::Error for InvalidShare {}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seed: u64, of: u64, list: &str, len: usize) -> Vec<usize> {
        Share { seed, of }.of_list(list, len).collect()
    }

    #[test]
    fn consecutive_seeds_take_each_case_once() {
        for (of, len) in [(12, 100), (12, 12), (5, 7), (1, 3)] {
            for first in [0, 591, u64::MAX - 40] {
                let mut all: Vec<_> =
                    (first..first + of).flat_map(|seed| taken(seed, of, "list", len)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..len).collect::<Vec<_>>(), "{of} shares of {len} cases from seed {first}");
            }
        }
    }

    #[test]
    fn no_share_of_a_list_is_empty_and_no_two_differ_by_more_than_one_case() {
        for len in 1..40 {
            let counts: Vec<_> = (0..12).map(|seed| taken(seed, 12, "list", len).len()).collect();
            let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(*fewest >= 1 && most - fewest <= 1, "{len} cases: {counts:?}");
        }
        assert_eq!(taken(0, 12, "list", 0), [0; 0]);
    }

    /// As `hack/test` runs the lab: a quarter of the tests, and with the next four seeds the next of three shares of their lists.
    #[test]
    fn a_list_in_a_test_that_runs_every_fourth_time_is_run_whole_by_twelve_seeds() {
        for (len, first) in (1..40).flat_map(|len| (591..595).map(move |first| (len, first))) {
            let seeds = (first..first + 12).step_by(4);
            let all: std::collections::BTreeSet<_> =
                seeds.flat_map(|seed| taken(seed / 4, 3, "chains", len)).collect();
            assert_eq!(all.len(), len, "{all:?} of {len} cases");
        }
    }

    #[test]
    fn a_directory_is_touched_with_what_is_in_it() {
        let touched = "conf/prometheus pkg/ipam/src plugins/main/sriov";
        assert!(is_touched(touched, &["pkg/doctor", "pkg/ipam"]));
        assert!(is_touched(touched, &["plugins/main/sriov"]));
        for other in ["pkg/ip", "pkg/ipam/src/pool", "plugins/main/macvlan"] {
            assert!(!is_touched(touched, &[other]), "{other}");
        }
        assert!(!is_touched("", &["pkg/ipam"]));
    }

    #[test]
    fn four_seeds_take_each_step_once() {
        let steps = |seed| Share { seed, of: 12 }.steps("list").take_while(|step| *step <= 20);
        let mut all: Vec<_> = (591..595).flat_map(steps).collect();
        all.sort_unstable();
        assert_eq!(all, (1..=20).collect::<Vec<_>>());
        assert!(Share::ALL.steps("list").take(20).eq(1..=20));
    }

    #[test]
    fn the_same_seed_takes_the_same_cases() {
        // As in an earlier run: it is replayed long after.
        assert_eq!(taken(591, 12, "macvlan ADD", 60), [10, 22, 34, 46, 58]);
        assert_eq!(taken(592, 12, "macvlan ADD", 60), [9, 21, 33, 45, 57]);
    }

    #[test]
    fn lists_are_out_of_phase() {
        let lists = (0..12).map(|list| taken(591, 12, &format!("list {list}"), 12)[0]);
        assert!(lists.collect::<std::collections::BTreeSet<_>>().len() > 6);
    }

    #[test]
    fn a_share_is_all_or_a_seed_and_a_number_of_shares() {
        assert_eq!("all".parse(), Ok(Share::ALL));
        assert_eq!("591/12".parse(), Ok(Share { seed: 591, of: 12 }));
        assert!(
            "591/12".parse::<Share>().is_ok_and(|share| !share.is_all() && share.to_string() == "591/12")
        );
        for invalid in ["", "sample", "591", "591/0", "591/", "-1/12", "1/2/3"] {
            assert!(invalid.parse::<Share>().unwrap_err().to_string().contains("SEED/N"), "{invalid}");
        }
    }
}
