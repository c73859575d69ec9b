//! Lets several tests start at the same moment.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long the first test waits for the last one.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A barrier that a test can leave, because it has failed or ended.
#[derive(Debug)]
pub struct StartLine {
    state: Mutex<LineState>,
    changed: Condvar,
}

#[derive(Debug)]
struct LineState {
    members: usize,
    waiting: usize,
    /// The number of starts so far.
    starts: u64,
}

/// The place of one test. Dropping it leaves the line.
#[derive(Debug)]
pub struct StartPlace<'a>(&'a StartLine);

impl StartLine {
    /// Returns a line for this number of tests, each of which must take its [`StartPlace`].
    pub fn new(members: usize) -> Self {
        Self { state: Mutex::new(LineState { members, waiting: 0, starts: 0 }), changed: Condvar::new() }
    }

    /// Returns the place of one test.
    pub fn place(&self) -> StartPlace<'_> {
        StartPlace(self)
    }

    fn lock(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_if_complete(&self, state: &mut LineState) {
        if state.waiting > 0 && state.waiting >= state.members {
            state.waiting = 0;
            state.starts += 1;
            self.changed.notify_all();
        }
    }
}

impl StartPlace<'_> {
    /// Waits until all tests that are left wait, or for a limited time.
    pub fn wait(&self) {
        let mut state = self.0.lock();
        state.waiting += 1;
        let start = state.starts;
        self.0.start_if_complete(&mut state);
        let is_waiting = |state: &mut LineState| state.starts == start;
        let waited = self.0.changed.wait_timeout_while(state, START_TIMEOUT, is_waiting);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() && state.starts == start {
            state.waiting -= 1;
        }
    }
}

impl Drop for StartPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.members -= 1;
        self.0.start_if_complete(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn all_start_when_the_last_is_ready_and_one_that_fails_holds_nobody_up() {
        let (line, ready) = (StartLine::new(4), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..3u64 {
                let (place, ready) = (line.place(), &ready);
                scope.spawn(move || {
                    for _ in 0..2 {
                        thread::sleep(Duration::from_millis(20 * number));
                        ready.fetch_add(1, Ordering::SeqCst);
                        place.wait();
                        assert!(ready.load(Ordering::SeqCst) >= 3);
                    }
                });
            }
            let failed = line.place();
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(100));
                drop(failed);
            });
        });
        assert_eq!(ready.load(Ordering::SeqCst), 6);
    }
}
