//! Waiting for asynchronous work of the kernel.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long asynchronous work of the kernel may take.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until a condition is true, whose description is `what`.
///
/// # Panics
/// If it is not true after ten seconds.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + KERNEL_TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "timed out after {KERNEL_TIMEOUT:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
