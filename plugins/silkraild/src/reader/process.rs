//! The frontend's process.

use std::{
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

use super::FrontendProcessError;
use crate::frontend;

/// This program, also where its file has been replaced since it was started.
const SELF_EXE: &str = "/proc/self/exe";

/// The send buffer of the reader's socket, in bytes.
const SOCKET_SEND_BUFFER: usize = 4 << 20;

/// How long a process that has closed its socket, or was killed, may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process that ends with this value. It ends by itself when its socket is closed, whatever happens here.
#[derive(Debug)]
pub(super) struct FrontendProcess(Child);

impl FrontendProcess {
    /// Starts it with this one's arguments, and a socket as its standard input.
    pub(super) fn start() -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // The kernel limits it to net.core.wmem_max. With a small one the text goes over in many pieces, which costs only time.
        let _ = setsockopt(&ours, sockopt::SndBuf, &SOCKET_SEND_BUFFER);
        let mut command = Command::new(SELF_EXE);
        command.arg0("silkraild").arg(frontend::OPTION).args(std::env::args_os().skip(1));
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok((Self(child), UnixStream::from_std(ours)?))
    }

    /// Why nothing is heard of it any more.
    pub(super) fn ended_with(&mut self, error: io::Error) -> FrontendProcessError {
        if error.kind() == io::ErrorKind::InvalidData {
            return FrontendProcessError::Talk(error);
        }
        self.status().map_or(FrontendProcessError::Hangs, FrontendProcessError::Ended)
    }

    /// How it has ended, or ends soon.
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
        let _ = self.status(); // one that a disk keeps in the kernel ends when it can
    }
}
