//! SIGINT, SIGTERM and SIGHUP as a question that can be asked, so that what was begun is cleaned up.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

use crate::{Error, error::io};

/// Whether this process is to end.
#[derive(Debug)]
pub struct Interrupt {
    signals: Option<SignalFd>,
    requested: AtomicBool,
}

impl Interrupt {
    /// From now on these signals no longer end the process. To be called before there is another thread.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn install() -> Result<Self, Error> {
        let mut set = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| set.add(signal));
        let signals = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC))
            .map_err(|errno| io("wait for signals")(errno.into()))?;
        Ok(Self { signals: Some(signals), requested: AtomicBool::new(false) })
    }

    /// One that only [`Interrupt::request`] requests.
    pub fn never() -> Self {
        Self { signals: None, requested: AtomicBool::new(false) }
    }

    /// As a signal does.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether it was ever requested.
    pub fn is_requested(&self) -> bool {
        if self.signals.as_ref().is_some_and(|signals| matches!(signals.read_signal(), Ok(Some(_)))) {
            self.request();
        }
        self.requested.load(Ordering::SeqCst)
    }

    /// # Errors
    /// [`Error::Interrupted`] if it was.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_requested() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_remembered() {
        let interrupt = Interrupt::never();
        assert!(interrupt.check().is_ok());
        interrupt.request();
        assert!(interrupt.is_requested() && matches!(interrupt.check(), Err(Error::Interrupted)));
    }
}
