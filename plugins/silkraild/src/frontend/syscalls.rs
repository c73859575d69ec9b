//! The system calls of the frontend.

use nix::libc::{self, c_int};

use crate::seccomp::{self, FilteredThreads, SeccompError, number, one_of};

/// Address families of socket(2). `AF_UNIX` would reach services that trust root by its user ID; so would a datagram pair of
/// socketpair(2).
const FAMILIES: [c_int; 2] = [libc::AF_INET, libc::AF_INET6];

/// Requests of ioctl(2). `TCGETS`: the log checks whether standard error is a terminal.
const IOCTLS: [libc::Ioctl; 3] = [libc::FIONBIO, libc::FIONREAD, libc::TCGETS];

/// Denies the calling thread, and the threads that it starts, all other calls.
///
/// # Errors
/// [`SeccompError`]: the frontend must not serve then.
pub(super) fn deny() -> Result<(), SeccompError> {
    let mut rules = seccomp::common()?;
    rules.insert(libc::SYS_socket, one_of(0, FAMILIES.map(number))?);
    rules.insert(libc::SYS_ioctl, one_of(1, IOCTLS)?);
    seccomp::install(rules, FilteredThreads::Calling)
}

#[cfg(test)]
mod tests;
