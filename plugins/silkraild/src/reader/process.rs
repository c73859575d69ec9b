//! The frontend's process.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{net, process::CommandExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::UnixStream;

use crate::frontend;

/// The running program, even if its file has been replaced since it was started.
const SELF_EXE: &str = "/proc/self/exe";

/// The send buffer of the reader's socket, in bytes.
const SOCKET_SEND_BUFFER: usize = 4 << 20;

/// Timeout for the exit of a process that has closed its socket or was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the reader stops serving its frontend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrontendProcessError {
    /// The frontend has logged the reason, unless it was killed.
    #[error("the HTTP frontend has exited: {0}")]
    Ended(ExitStatus),
    #[error("failed to start the HTTP frontend: {0}")]
    Start(io::Error),
    #[error("the HTTP frontend has closed its socket but does not exit")]
    Hangs,
    #[error("invalid request from the HTTP frontend: {0}")]
    Talk(io::Error),
}

/// The frontend process, killed on drop. It also exits on its own when its socket is closed.
#[derive(Debug)]
pub(super) struct FrontendProcess(Child);

impl FrontendProcess {
    /// Starts the frontend with the arguments of this process, after those of its configuration file, and a socket as its
    /// standard input.
    pub(super) fn start(arguments: &[OsString]) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // The kernel limits it to net.core.wmem_max. A small buffer costs only time: a text is sent in more pieces.
        let _ = setsockopt(&ours, sockopt::SndBuf, &SOCKET_SEND_BUFFER);
        let mut command = Command::new(SELF_EXE);
        command.arg0("silkraild").arg(frontend::OPTION).args(arguments);
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok((Self(child), UnixStream::from_std(ours)?))
    }

    /// Returns why reading from the frontend failed with `error`.
    pub(super) fn ended_with(&mut self, error: io::Error) -> FrontendProcessError {
        if error.kind() == io::ErrorKind::InvalidData {
            return FrontendProcessError::Talk(error);
        }
        self.status().map_or(FrontendProcessError::Hangs, FrontendProcessError::Ended)
    }

    /// Waits for the exit status; `None` after [`EXIT_TIMEOUT`].
    fn status(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for FrontendProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.status(); // a process in uninterruptible sleep exits later
    }
}
