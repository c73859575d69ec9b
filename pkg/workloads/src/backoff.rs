//! How long to wait before asking again.

use std::time::Duration;

/// Pauses that double up to a longest one. Each is between half and all of its nominal length, so that the nodes of a
/// cluster do not ask at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn starting_with(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// The next one.
    pub(crate) fn next(&mut self, longest: Duration) -> Duration {
        let nominal = self.next.min(longest);
        self.next = nominal.saturating_mul(2);
        nominal.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// All is well: the next one is the first.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_start_anew_when_all_is_well() {
        let second = Duration::from_secs(1);
        let mut pause = Backoff::starting_with(second);
        for nominal in [1, 2, 4, 5, 5] {
            let next = pause.next(second * 5);
            assert!(next >= second * nominal / 2 && next <= second * nominal, "{nominal}: {next:?}");
        }
        pause.reset();
        assert!(pause.next(second * 5) <= second);
    }
}
