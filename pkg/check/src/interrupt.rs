//! SIGINT, SIGTERM and SIGHUP as a flag to poll (`signalfd(2)`), so that a test can clean up before the process exits.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
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
        let interrupt = Interrupt::never();
        assert!(interrupt.check().is_ok());
        interrupt.request();
        assert!(interrupt.is_requested() && matches!(interrupt.check(), Err(Error::Interrupted)));
    }
}
