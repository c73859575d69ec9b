//! The system calls of the reader, which has capabilities: it reads, and changes nothing.
//!
//! Its capabilities would make it equal to root: by the memory of other processes, by the files of root in `/proc/1/root`, by a new
//! mount of `/proc` or `/sys`, by another mount namespace, or by the sockets of services that trust root.

use nix::libc::{self, c_int, c_long};

use crate::seccomp::{self, FilteredThreads, SeccompError, SeccompRules, number, one_of};

/// Allowed with any arguments, in addition to those of every process: directories, and what remains to be done with children. A mount
/// made by fsmount(2) is attached nowhere, since move_mount(2) is not allowed.
const ALLOWED: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_capget,
    libc::SYS_flock,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Address families of socket(2): the kernel's netlink, and the Kubernetes API.
const FAMILIES: [c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Requests of ioctl(2). `SIOCETHTOOL` reads statistics: it changes settings only with `CAP_NET_ADMIN`, which the reader does not need.
const IOCTLS: [libc::Ioctl; 4] = [libc::FIONBIO, libc::FIONREAD, libc::TCGETS, libc::SIOCETHTOOL];

/// Denies all threads of the process all other calls. Signals can be sent only to these processes.
///
/// # Errors
/// [`SeccompError`]: the reader must not read pods then.
pub(crate) fn deny(children: [u32; 2]) -> Result<(), SeccompError> {
    seccomp::install(rules(children)?, FilteredThreads::All)
}

fn rules(children: [u32; 2]) -> Result<SeccompRules, SeccompError> {
    let mut rules = seccomp::common()?;
    rules.extend(ALLOWED.iter().map(|call| (*call, Vec::new())));
    // Network namespaces only.
    rules.insert(libc::SYS_setns, one_of(1, [number(libc::CLONE_NEWNET)])?);
    rules.insert(libc::SYS_socket, one_of(0, FAMILIES.map(number))?);
    rules.insert(libc::SYS_ioctl, one_of(1, IOCTLS)?);
    rules.insert(libc::SYS_kill, one_of(0, children.map(u64::from))?);
    Ok(rules)
}

#[cfg(test)]
mod tests;
