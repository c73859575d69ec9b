//! Exponential backoff with jitter.

use std::time::Duration;

/// Delays that double up to a maximum. Each is between half and all of its nominal length, so that the nodes of a cluster do
/// not send requests at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn starting_with(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// Returns the next delay.
    pub(crate) fn next(&mut self, longest: Duration) -> Duration {
        let nominal = self.next.min(longest);
        self.next = nominal.saturating_mul(2);
        nominal.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Resets the next delay to the first, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_the_maximum_until_a_reset() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::starting_with(second);
        for nominal in [1, 2, 4, 5, 5] {
            let next = backoff.next(second * 5);
            assert!(next >= second * nominal / 2 && next <= second * nominal, "{nominal}: {next:?}");
        }
        backoff.reset();
        assert!(backoff.next(second * 5) <= second);
    }
}
