//! The processes that the reader starts.

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

/// The running program, even if its file has been replaced since it was started.
const SELF_EXE: &str = "/proc/self/exe";

/// The send buffer of the reader's socket, in bytes.
const SOCKET_SEND_BUFFER: usize = 4 << 20;

/// Timeout for the exit of a process that has closed its socket or was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the reader stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildProcessError {
    /// The process has logged the reason, unless it was killed.
    #[error("the {0} has exited: {1}")]
    Ended(&'static str, ExitStatus),
    #[error("failed to start the {0}: {1}")]
    Start(&'static str, io::Error),
    #[error("the {0} has closed its socket but does not exit")]
    Hangs(&'static str),
    #[error("invalid message from the {0}: {1}")]
    Talk(&'static str, io::Error),
}

/// A process of this program, killed on drop. It also exits on its own when its socket is closed.
#[derive(Debug)]
pub(super) struct ChildProcess {
    name: &'static str,
    child: Child,
}

impl ChildProcess {
    /// Starts it with an option, the arguments of this process after those of its configuration file, and a socket as its standard
    /// input.
    pub(super) fn start(
        name: &'static str,
        option: &str,
        arguments: &[OsString],
    ) -> Result<(Self, UnixStream), ChildProcessError> {
        let start = || {
            let (ours, theirs) = net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            // The kernel limits it to net.core.wmem_max. A small buffer costs only time: a text is sent in more pieces.
            let _ = setsockopt(&ours, sockopt::SndBuf, &SOCKET_SEND_BUFFER);
            let mut command = Command::new(SELF_EXE);
            command.arg0("silkraild").arg(option).args(arguments);
            let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
            Ok((Self { name, child }, UnixStream::from_std(ours)?))
        };
        start().map_err(|error| ChildProcessError::Start(name, error))
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns why reading from the process failed with `error`.
    pub(super) fn ended_with(&mut self, error: io::Error) -> ChildProcessError {
        if error.kind() == io::ErrorKind::InvalidData {
            return ChildProcessError::Talk(self.name, error);
        }
        match self.wait() {
            Some(status) => ChildProcessError::Ended(self.name, status),
            None => ChildProcessError::Hangs(self.name),
        }
    }

    /// Waits for the exit status; `None` after [`EXIT_TIMEOUT`].
    pub(super) fn wait(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.wait(); // a process in uninterruptible sleep exits later
    }
}
