//! File locks with a timeout.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tracing::info;

use crate::error::Error;

/// Longer waits are logged.
const LOG_LOCK_WAIT_THRESHOLD: Duration = Duration::from_millis(100);

/// Takes the exclusive lock of `file` (`flock(2)`), waiting until `deadline` at the latest. The lock is released
/// when the file is closed, also when the process exits.
///
/// `flock` has no timeout, so this retries with a backoff of up to 10 ms. A wait of more than 100 ms is logged, since a
/// slow call would otherwise look like a slow kernel.
///
/// # Errors
/// [`Error::Busy`] after the deadline, with the duration of the wait.
pub fn lock(file: &File, path: &Path, deadline: Instant) -> Result<(), Error> {
    let started = Instant::now();
    let mut delay = Duration::from_micros(100);
    loop {
        match file.try_lock() {
            Ok(()) => {
                report(path, started.elapsed());
                return Ok(());
            }
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(delay);
                delay = (delay * 2).min(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy { path: path.to_owned(), waited: started.elapsed() });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Io { operation: "lock", path: path.to_owned(), source });
            }
        }
    }
}

fn report(path: &Path, waited: Duration) {
    if waited > LOG_LOCK_WAIT_THRESHOLD {
        info!(file = %path.display(), ?waited, "waited for a lock");
    }
}
