//! The frontend does not outlive the reader, even if the frontend hangs and does not see that the socket was closed.

use std::os::unix::net::UnixStream;

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::Signal,
        socket::{getsockopt, sockopt::PeerCredentials},
    },
    unistd::getppid,
};

/// The frontend cannot be tied to the reader's lifetime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "the process at the other end of standard input is not the parent of this process, or has exited"
    )]
    Gone,
    #[error("failed to set the parent-death signal: {0}")]
    Refused(#[from] Errno),
}

/// Makes the kernel kill this process when the reader exits (`PR_SET_PDEATHSIG`). The reader has created the socket.
///
/// # Errors
/// [`Error::Gone`] if the reader has already exited.
pub(crate) fn end_with(reader: &UnixStream) -> Result<(), Error> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // From here on the kernel sends the signal. A reader that had exited before is no longer the parent.
    if getsockopt(reader, PeerCredentials)?.pid() != getppid().as_raw() {
        return Err(Error::Gone);
    }
    Ok(())
}
