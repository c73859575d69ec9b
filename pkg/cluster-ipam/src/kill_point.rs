//! The points at which tests kill the agent: before and after each request about blocks.
//!
//! `SILKRAIL_KILL_POINT=N` ends the process at the N-th of them, without any cleanup. Release builds do not have it.

/// Ends the process if this is the point that a test has chosen.
#[cfg(not(debug_assertions))]
pub(crate) fn point() {}

/// Ends the process if this is the point that a test has chosen.
#[cfg(debug_assertions)]
pub(crate) fn point() {
    use std::sync::atomic::{AtomicU32, Ordering};

    static PASSED: AtomicU32 = AtomicU32::new(0);
    let number = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    if std::env::var("SILKRAIL_KILL_POINT").is_ok_and(|chosen| chosen == number.to_string()) {
        std::process::abort();
    }
}
