//! The reader, which this process does not outlive: not even if it hangs, when nobody sees the socket end.

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

/// It does not end with this one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the process at the other end of standard input has not started this one, or has ended")]
    Gone,
    #[error("end with the process that reads the node: {0}")]
    Refused(#[from] Errno),
}

/// Has the kernel kill this process when the reader ends, which is at the other end of a socket that it made.
///
/// # Errors
/// That it has ended already.
pub(super) fn end_with(reader: &UnixStream) -> Result<(), Error> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // From here on the kernel sees to it.
    if getsockopt(reader, PeerCredentials)?.pid() != getppid().as_raw() {
        return Err(Error::Gone);
    }
    Ok(())
}
