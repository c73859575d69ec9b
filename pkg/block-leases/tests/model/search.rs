//! The choices of a run, and the search through a share of them.

use testkit::Share;

/// A share of the runs is that of the sequences of this many first choices.
const FIRST_CHOICES: usize = 8;

/// The choices of one run: those of `path` first, then the first of each.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    path: Vec<Choice>,
    at: usize,
    random: Option<(u64, fastrand::Rng)>,
}

#[derive(Debug, Clone, Copy)]
struct Choice {
    chosen: usize,
    of: usize,
}

impl Choices {
    /// Returns a number below `of`.
    pub(crate) fn choose(&mut self, of: usize) -> usize {
        if of <= 1 {
            return 0;
        }
        if let Some((_, random)) = &mut self.random {
            return random.usize(..of);
        }
        if self.at == self.path.len() {
            self.path.push(Choice { chosen: 0, of });
        }
        let choice = self.path[self.at];
        assert_eq!(choice.of, of, "a run is not determined by its choices");
        self.at += 1;
        choice.chosen
    }

    /// Like [`Choices::choose`], but in a random run the first is chosen nearly always.
    pub(crate) fn choose_rarely(&mut self, of: usize) -> usize {
        let is_usual = self.random.as_mut().is_some_and(|(_, random)| random.u8(..16) > 0);
        if is_usual { 0 } else { self.choose(of) }
    }

    fn of_seed(seed: u64) -> Self {
        Self { random: Some((seed, fastrand::Rng::with_seed(seed))), ..Self::default() }
    }

    /// Makes the next run the same as the last one.
    pub(crate) fn repeat(&mut self) {
        self.at = 0;
        if let Some((seed, random)) = &mut self.random {
            *random = fastrand::Rng::with_seed(*seed);
        }
    }

    /// Goes on to the next run; returns whether there is one.
    fn advance(&mut self) -> bool {
        self.path.truncate(self.at);
        self.at = 0;
        while let Some(last) = self.path.last_mut() {
            last.chosen += 1;
            if last.chosen < last.of {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

/// Runs with every sequence of choices of a share, and returns the number of runs. Of the sequences that begin as one that is
/// not in the share, only the first is run.
///
/// # Panics
/// With what a run returns.
pub(crate) fn every(share: Share, list: &str, mut run: impl FnMut(&mut Choices) -> Option<String>) -> usize {
    let mut choices = Choices::default();
    let (mut runs, mut beginning) = (0, 0);
    loop {
        if let Some(wrong) = run(&mut choices) {
            panic!("{wrong}");
        }
        runs += 1;
        if !share.has(list, beginning) {
            choices.at = choices.at.min(FIRST_CHOICES);
        }
        if !choices.advance() {
            return runs;
        }
        beginning += usize::from(choices.path.len() <= FIRST_CHOICES);
    }
}

/// Runs with random choices, of as many runs those of a share.
///
/// # Panics
/// With what a run returns.
pub(crate) fn random(
    share: Share,
    list: &str,
    runs: usize,
    mut run: impl FnMut(&mut Choices) -> Option<String>,
) {
    for seed in share.of_list(list, runs) {
        if let Some(wrong) = run(&mut Choices::of_seed(seed as u64)) {
            panic!("{wrong}");
        }
    }
}

#[test]
fn every_sequence_of_choices_is_run_once() {
    let mut seen = Vec::new();
    let runs = every(Share::ALL, "", |choices| {
        let first = choices.choose(3);
        let second = if first == 1 { choices.choose(2) } else { 9 };
        seen.push((first, second));
        None
    });
    assert_eq!((runs, seen), (4, vec![(0, 9), (1, 0), (1, 1), (2, 9)]));
}

#[test]
fn shares_with_consecutive_seeds_run_every_sequence() {
    let sequences = |share: Share| {
        let mut seen = std::collections::BTreeSet::new();
        every(share, "list", |choices| {
            let length = if choices.choose(2) == 0 { FIRST_CHOICES } else { FIRST_CHOICES + 4 };
            seen.insert((0..length).map(|_| choices.choose(2)).collect::<Vec<_>>());
            None
        });
        seen
    };
    let shares = (591..603).map(|seed| sequences(format!("{seed}/12").parse().unwrap()));
    let shares: Vec<_> = shares.collect();
    let all = sequences(Share::ALL);
    assert!(shares.iter().all(|share| share.len() < all.len() / 3));
    assert_eq!(shares.into_iter().flatten().collect::<std::collections::BTreeSet<_>>(), all);
}
