//! A limit of the rails that an agent tests with other agents at the same time, for all its clients together.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Each rail has a thread, a program and two threads for its output. The tasks of the agent's unit are limited to 512.
pub(super) const MAX_RUNNING_RAILS: usize = 64;

/// Counts the rails of all clients.
#[derive(Debug, Default)]
pub(super) struct RailLimit {
    running: AtomicUsize,
}

/// The rails of one client. Dropping it ends their count.
#[derive(Debug)]
pub(super) struct RunningRails<'a> {
    limit: &'a RailLimit,
    rails: usize,
}

impl RailLimit {
    /// Counts rails, or none of them if they were more than [`MAX_RUNNING_RAILS`] with those that are running.
    pub(super) fn reserve(&self, rails: usize) -> Option<RunningRails<'_>> {
        let more = |running: usize| running.checked_add(rails).filter(|sum| *sum <= MAX_RUNNING_RAILS);
        self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(RunningRails { limit: self, rails })
    }
}

impl Drop for RunningRails<'_> {
    fn drop(&mut self) {
        self.limit.running.fetch_sub(self.rails, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MAX_RAILS;

    #[test]
    fn rails_of_all_clients_have_one_limit() {
        let limit = RailLimit::default();
        let clients: Vec<_> =
            (0..MAX_RUNNING_RAILS / MAX_RAILS).map(|_| limit.reserve(MAX_RAILS).unwrap()).collect();
        assert!(limit.reserve(1).is_none());
        drop(clients);
        assert!(limit.reserve(MAX_RUNNING_RAILS + 1).is_none());
        assert!(limit.reserve(MAX_RUNNING_RAILS).is_some());
    }
}
