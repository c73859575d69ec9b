//! The deadline of a wait for a lock of the state directory.

use std::time::Instant;

/// The deadline of a wait for a lock. The value is dropped after the wait, so that an implementation can measure how long
/// the call waited for this lock.
pub trait LockDeadline {
    /// Returns the time at which the wait ends with an error.
    fn at(&self) -> Instant;
}

impl LockDeadline for Instant {
    fn at(&self) -> Instant {
        *self
    }
}
