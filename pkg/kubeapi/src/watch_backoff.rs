//! The delays after which a watch is tried again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST_DELAY: Duration = Duration::from_millis(200);
/// CNI plugins wait for longer than this.
const LONGEST_DELAY: Duration = Duration::from_secs(8);

/// Delays that double, with a random part so that the nodes of a cluster do not return all at once.
#[derive(Debug, Clone)]
pub struct WatchBackoff {
    next: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { next: FIRST_DELAY }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next;
        self.next = (delay * 2).min(LONGEST_DELAY);
        Some(delay.mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_limit() {
        let mut backoff = WatchBackoff::default();
        let delays: Vec<_> = backoff.by_ref().take(20).collect();
        assert!(delays[0] <= FIRST_DELAY && delays.iter().all(|delay| *delay <= LONGEST_DELAY), "{delays:?}");
        assert!(delays[19] >= LONGEST_DELAY / 2, "{delays:?}");
        backoff.reset();
        assert!(backoff.next().unwrap() <= FIRST_DELAY);
    }
}
