//! Why a link did not tell.

use identifiers::LinkName;
use nix::errno::Errno;

/// Why a link did not tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No socket could be had to ask with.
    #[error("open a socket for ethtool: {}", .0.desc())]
    Open(Errno),
    /// There is no link of that name in the socket's network namespace, or its driver is being reset (`ENODEV`).
    #[error("link {link}: not found in this network namespace")]
    NoSuchLink {
        /// Its name.
        link: LinkName,
    },
    /// The kernel or the driver refused.
    #[error("{operation} of link {link}: {}", .errno.desc())]
    Refused {
        /// The command of `linux/ethtool.h`.
        operation: &'static str,
        /// Of which link.
        link: LinkName,
        /// The answer.
        errno: Errno,
    },
    /// Whenever it was read, other statistics were there.
    #[error("link {link}: its statistics changed each time they were read; read them again later")]
    Unsteady {
        /// Its name.
        link: LinkName,
    },
}

impl Error {
    /// Whether the driver simply does not have what was asked for.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Refused { errno: Errno::EOPNOTSUPP, .. })
    }
}
