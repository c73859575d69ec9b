//! Advisory locks (flock(2)) with a deadline. The kernel releases them when the process ends, even if it is killed.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tracing::info;

use crate::StoreError;

const INITIAL_DELAY: Duration = Duration::from_micros(20);
const MAX_DELAY: Duration = Duration::from_micros(500);
/// A longer wait is logged.
const LOG_WAIT_THRESHOLD: Duration = Duration::from_millis(100);

/// Locks the file until it is closed.
///
/// flock(2) has no timeout, so this polls with exponential backoff. Locks are normally held for microseconds. A
/// longer wait means that the holder is stopped; it is logged after 100 ms.
pub(crate) fn lock(file: &File, path: &Path, deadline: Instant) -> Result<(), StoreError> {
    let began = Instant::now();
    let mut delay = INITIAL_DELAY;
    loop {
        match file.try_lock() {
            Ok(()) => {
                report(path, began.elapsed());
                return Ok(());
            }
            Err(TryLockError::Error(source)) => return Err(StoreError::io("lock", path)(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StoreError::Busy { path: path.to_owned(), waited: began.elapsed() });
        }
        thread::sleep(delay.min(left));
        delay = (delay * 2).min(MAX_DELAY);
    }
}

fn report(path: &Path, waited: Duration) {
    if waited > LOG_WAIT_THRESHOLD {
        info!(file = %path.display(), ?waited, "waited for a lock");
    }
}
