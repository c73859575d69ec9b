//! Waiting for asynchronous work.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long asynchronous work may take, on an emulated machine that shares its CPU.
const TIMEOUT: Duration = Duration::from_secs(60);

const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Waits until a condition is true, whose description is `what`.
///
/// # Panics
/// If it is not true after a minute.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        let waited = began.elapsed();
        assert!(waited < TIMEOUT, "timed out after {TIMEOUT:?}: {what}");
        // Asking again and again takes time from what is waited for: there may be one CPU.
        thread::sleep((waited / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}
