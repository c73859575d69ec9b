//! Advisory locks with a deadline. The kernel drops them when their process ends, however it ends.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use tracing::info;

use crate::StoreError;

const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);
/// Who waits longer than this says so.
const LOG_WAIT_THRESHOLD: Duration = Duration::from_millis(100);

/// Locks the file until it is closed.
///
/// The kernel has no lock call with a deadline, so this asks again and again, more and more slowly. Locks are
/// held for microseconds; who waits longer waits for a stopped process, and after 100 ms it is logged.
pub(crate) fn lock(file: &File, path: &Path, deadline: Instant) -> Result<(), StoreError> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
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
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn report(path: &Path, waited: Duration) {
    if waited > LOG_WAIT_THRESHOLD {
        info!(file = %path.display(), ?waited, "waited for a lock");
    }
}
