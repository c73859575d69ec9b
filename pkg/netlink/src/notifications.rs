//! Waiting for netlink notifications.

use std::{
    io,
    os::fd::AsFd,
    time::{Duration, Instant},
};

use netlink_sys::{Socket, SocketAddr};
use nix::{
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// A socket that receives notifications of one netlink protocol, in the namespace of the thread that opened it.
///
/// It only reports *that* something changed: the caller must read the state again. So lost notifications (`ENOBUFS`)
/// count as a notification, not as an error.
#[derive(Debug)]
pub struct Notifications {
    socket: Socket,
}

impl Notifications {
    /// Opens a socket that receives the multicast groups of the bit mask `groups`.
    ///
    /// # Errors
    /// The system call's error; an unknown `protocol` is `EPROTONOSUPPORT`.
    pub fn open(protocol: isize, groups: u32) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind(&SocketAddr::new(0, groups))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Waits for a notification, until `deadline` and for `at_most`, whichever is earlier.
    /// Returns whether there was one.
    ///
    /// # Errors
    /// The system call's error.
    pub fn wait(&self, deadline: Instant, at_most: Duration) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now()).min(at_most);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) => Ok(false),
            Ok(_) => Ok(self.drain()),
            Err(nix::Error::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn drain(&self) -> bool {
        let mut buffer: Vec<u8> = Vec::with_capacity(8192);
        loop {
            buffer.clear();
            match self.socket.recv(&mut buffer, libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return true,
            }
        }
    }
}
