//! SIGINT, SIGTERM and SIGHUP as a flag to poll (`signalfd(2)`), so that a test can clean up before the process exits.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};

use crate::{Error, error::io};

/// Whether this process was asked to exit.
#[derive(Debug)]
pub struct Interrupt {
    signals: Option<SignalFd>,
    requested: AtomicBool,
}

impl Interrupt {
    /// Blocks the signals, so that they no longer end the process. Must be called before any thread is created.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn install() -> Result<Self, Error> {
        let mut set = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| set.add(signal));
        let signals = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC))
            .map_err(|errno| io("set up signal handling")(errno.into()))?;
        Ok(Self { signals: Some(signals), requested: AtomicBool::new(false) })
    }

    /// Returns a value that ignores signals: only [`Interrupt::request`] sets it.
    pub fn never() -> Self {
        Self { signals: None, requested: AtomicBool::new(false) }
    }

    /// Requests the exit, as a signal does.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether the exit has been requested.
    pub fn is_requested(&self) -> bool {
        if self.signals.as_ref().is_some_and(|signals| matches!(signals.read_signal(), Ok(Some(_)))) {
            self.request();
        }
        self.requested.load(Ordering::SeqCst)
    }

    /// Waits until the exit is requested by a signal, for a limited time. Returns whether it has been requested.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&self, limit: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            if self.is_requested() || rest.is_zero() {
                return Ok(self.is_requested());
            }
            let signals = self.signals.iter().map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN));
            // A fraction of a millisecond would not wait at all.
            let rest = PollTimeout::try_from(rest + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut signals.collect::<Vec<_>>(), rest) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(io("wait for signals")(errno.into())),
            }
        }
    }

    /// # Errors
    /// [`Error::Interrupted`] if the exit has been requested.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_persists() {
        let (interrupt, began) = (Interrupt::never(), Instant::now());
        assert!(interrupt.check().is_ok());
        interrupt.request();
        assert!(interrupt.is_requested() && matches!(interrupt.check(), Err(Error::Interrupted)));
        assert!(interrupt.wait(Duration::from_secs(60)).unwrap());
        assert!(began.elapsed() < Duration::from_secs(30), "it is not waited for again");
    }

    #[test]
    fn a_wait_ends_with_its_limit() {
        let (interrupt, began) = (Interrupt::never(), Instant::now());
        assert!(!interrupt.wait(Duration::from_millis(30)).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
