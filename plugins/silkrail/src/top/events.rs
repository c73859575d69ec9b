//! What ends a wait: a key, a signal, or the time.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The time has come.
    Tick,
    Key(u8),
    /// The terminal has another size.
    Resized,
    /// The process is to stop, until it continues.
    Stop,
    /// The process is to exit.
    Quit,
}

#[derive(Debug)]
pub(super) struct Events {
    signals: SignalFd,
    keyboard: Option<OwnedFd>,
}

impl Events {
    /// Blocks the signals, with a screen also those that concern it. Must be called before any thread is created, which
    /// inherits that.
    pub(super) fn new(has_screen: bool, keyboard: Option<impl AsFd>) -> io::Result<Self> {
        let keyboard = keyboard.map(|keyboard| keyboard.as_fd().try_clone_to_owned()).transpose()?;
        let mut set = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| set.add(signal));
        if has_screen {
            [Signal::SIGWINCH, Signal::SIGTSTP].into_iter().for_each(|signal| set.add(signal));
        }
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { signals, keyboard })
    }

    /// Waits for the next event. Events that have happened before are returned, even if the deadline is over.
    pub(super) fn next(&mut self, deadline: Instant) -> io::Result<Event> {
        loop {
            if let Some(event) = self.signal()? {
                return Ok(event);
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            // A fraction of a millisecond would not wait at all.
            let timeout = if rest.is_zero() { Duration::ZERO } else { rest + Duration::from_millis(1) };
            let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
            let keyboard = self.keyboard.as_ref().map(AsFd::as_fd);
            let all = [Some(self.signals.as_fd()), keyboard].into_iter().flatten();
            let mut all: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut all, timeout) {
                Ok(0) if rest.is_zero() => return Ok(Event::Tick),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let has_key = all.get(1).and_then(PollFd::revents).is_some_and(|events| !events.is_empty());
            if has_key && let Some(event) = self.key()? {
                return Ok(event);
            }
        }
    }

    fn signal(&self) -> io::Result<Option<Event>> {
        let Some(info) = self.signals.read_signal()? else { return Ok(None) };
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        Ok(Some(match signal {
            Some(Signal::SIGWINCH) => Event::Resized,
            Some(Signal::SIGTSTP) => Event::Stop,
            _ => Event::Quit,
        }))
    }

    /// Reads a key. A terminal that is gone is the end.
    fn key(&self) -> io::Result<Option<Event>> {
        let Some(keyboard) = &self.keyboard else { return Ok(None) };
        let mut key = [0];
        match nix::unistd::read(keyboard, &mut key) {
            Ok(0) | Err(Errno::EIO) => Ok(Some(Event::Quit)),
            Ok(_) if matches!(key[0], b'q' | b'Q') => Ok(Some(Event::Quit)),
            Ok(_) => Ok(Some(Event::Key(key[0]))),
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
