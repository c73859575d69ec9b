//! Waiting for a file's lock, but not for ever.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tracing::info;

use crate::Error;

/// Who waits longer than this says so.
const LOG_LOCK_WAIT_THRESHOLD: Duration = Duration::from_millis(100);

/// Takes the exclusive lock of `file` (`flock(2)`), waiting until `deadline` at the latest. The lock goes
/// with the file, and so with the process.
///
/// `flock` has no time limit of its own, so this asks again and again, ever more slowly up to 10 ms. A wait of more
/// than 100 ms is logged: a slow call looks like a slow kernel otherwise.
///
/// # Errors
/// [`Error::Busy`] says how long was waited.
pub fn lock(file: &File, path: &Path, deadline: Instant) -> Result<(), Error> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(100);
    loop {
        match file.try_lock() {
            Ok(()) => {
                report(path, started.elapsed());
                return Ok(());
            }
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
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
