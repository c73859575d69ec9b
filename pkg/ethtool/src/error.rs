//! Errors of ethtool requests.

use identifiers::LinkName;
use nix::errno::Errno;

/// Why an ethtool request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// socket(2) failed.
    #[error("cannot open a socket for ethtool: {}", .0.desc())]
    Open(Errno),
    /// There is no link with that name in the socket's network namespace, or its driver is being reset (`ENODEV`).
    #[error("link {link}: not found in this network namespace")]
    NoSuchLink {
        /// The name of the link, such as `eth0`.
        link: LinkName,
    },
    /// The kernel or the driver rejected the request.
    #[error("{operation} for link {link}: {}", .errno.desc())]
    Refused {
        /// The command in `linux/ethtool.h`, such as `ETHTOOL_GSTATS`.
        operation: &'static str,
        /// The link that the command was sent to.
        link: LinkName,
        /// The error of ioctl(2).
        errno: Errno,
    },
    /// The set of statistics changed during every attempt to read it.
    #[error("link {link}: its statistics changed during every attempt to read them; try again later")]
    Unsteady {
        /// The name of the link.
        link: LinkName,
    },
}

impl Error {
    /// Whether the driver does not implement the command (`EOPNOTSUPP`).
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { errno: Errno::EOPNOTSUPP, .. })
    }
}
