//! Waiting for the kernel.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long the kernel may take for something it does by itself.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until something is true.
///
/// # Panics
/// If it is not after ten seconds.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + KERNEL_TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "waited {KERNEL_TIMEOUT:?} in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
