//! Where a process may be killed: before each step that changes something on the disk. Tests do it.

/// Passes such a place.
#[cfg(not(test))]
pub(crate) fn point() {}

#[cfg(test)]
pub(crate) use order::{killable, point};

#[cfg(test)]
mod order {
    //! A kill is an unwinding that nobody sees: what the process would not have done is not done, and its locks go.

    use std::{
        cell::Cell,
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    };

    thread_local! {
        /// How many places are passed before the kill.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    struct KilledAtPoint;

    pub(crate) fn point() {
        match LEFT.get() {
            Some(0) => resume_unwind(Box::new(KilledAtPoint)),
            left => LEFT.set(left.map(|left| left - 1)),
        }
    }

    /// What `work` returns; `None` if it was killed at the place of that number before it ended.
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
