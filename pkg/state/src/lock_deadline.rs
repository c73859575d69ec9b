//! Until when a lock of the state directory is waited for.

use std::time::Instant;

/// Until when a lock is waited for. It is kept for as long as the wait: who accounts for the time of a call learns so what was
/// waited for.
pub trait LockDeadline {
    /// The moment.
    fn at(&self) -> Instant;
}

impl LockDeadline for Instant {
    fn at(&self) -> Instant {
        *self
    }
}
