//! The points at which tests kill a process: before each change of a file.

/// Does nothing: only tests kill.
#[cfg(not(test))]
pub(crate) fn point() {}

#[cfg(test)]
pub(crate) use order::{killable, point};

#[cfg(test)]
mod order {
    //! A kill is an unwinding panic without a message: the remaining steps do not happen, and locks are released.

    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    };

    thread_local! {
        /// The number of points before the kill.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    struct KilledAtPoint;

    pub(crate) fn point() {
        match LEFT.get() {
            Some(0) => resume_unwind(Box::new(KilledAtPoint)),
            left => LEFT.set(left.map(|left| left - 1)),
        }
    }

    /// Returns the result of `work`; `None` if it was killed at point number `at`, counted from 0.
    pub(crate) fn killable<T>(at: u32, work: impl FnOnce() -> T) -> Option<T> {
        LEFT.set(Some(at));
        let done = catch_unwind(AssertUnwindSafe(work));
        LEFT.set(None);
        match done {
            Ok(done) => Some(done),
            Err(why) if why.is::<KilledAtPoint>() => None,
            Err(why) => resume_unwind(why),
        }
    }
}
