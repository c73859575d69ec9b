//! Lets several tests start at the same moment.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Error, Interrupt};

/// How long the first test waits for the last one.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval at which a wait checks for an interrupt.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

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
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn wait(&self, interrupt: &Interrupt) -> Result<(), Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut state = self.0.lock();
        state.waiting += 1;
        let start = state.starts;
        self.0.start_if_complete(&mut state);
        while state.starts == start {
            let interrupted = interrupt.check();
            if interrupted.is_err() || Instant::now() >= deadline {
                state.waiting -= 1;
                return interrupted;
            }
            let waited = self.0.changed.wait_timeout(state, INTERRUPT_POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
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
                        place.wait(&Interrupt::never()).unwrap();
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

    #[test]
    fn an_interrupt_ends_the_wait() {
        let (line, interrupt) = (StartLine::new(2), Interrupt::never());
        let (waiting, _other) = (line.place(), line.place());
        interrupt.request();
        assert!(matches!(waiting.wait(&interrupt), Err(Error::Interrupted)));
        assert_eq!(line.lock().waiting, 0);
    }
}
