//! The error of a netlink request.

use std::{io, time::Duration};

use netlink_packet_core::DecodeError;
use nix::errno::Errno;

use crate::Extack;

/// The error of a netlink request. The message has the form `operation object: cause`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist. A clean-up treats this as success.
    #[error("{operation} {object}: not found{extack}")]
    NotFound {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The kernel's extended acknowledgement.
        extack: Extack,
    },
    /// The object, or another of that name, already exists (`EEXIST`).
    #[error("{operation} {object}: already exists{extack}")]
    Exists {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The kernel's extended acknowledgement.
        extack: Extack,
    },
    /// The kernel refused the request for another reason.
    #[error("{operation} {object}: {}{extack}", errno.desc())]
    Refused {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The kernel's error number.
        errno: Errno,
        /// The kernel's extended acknowledgement.
        extack: Extack,
    },
    /// The kernel did not reply in time. A change may have been made.
    #[error("{operation} {object}: no reply from the kernel within {within:?}")]
    Deadline {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The timeout.
        within: Duration,
    },
    /// A dump did not end. It is still in progress: this socket cannot start another one (`EBUSY`), a new socket can.
    #[error("{operation} {object}: the kernel's list did not end after {datagrams} datagrams")]
    Endless {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The number of datagrams that were read.
        datagrams: usize,
    },
    /// The reply could not be decoded.
    #[error("{operation} {object}: {source}")]
    Decode {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The error of the decoder.
        source: DecodeError,
    },
    /// A system call on the socket failed.
    #[error("{operation} {object}: netlink socket: {source}")]
    Socket {
        /// The operation, such as `delete`.
        operation: &'static str,
        /// The object of the operation, such as `link net1`.
        object: String,
        /// The system call's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns the kernel's error number, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::NotFound { .. } => Some(Errno::ENODEV),
            Self::Exists { .. } => Some(Errno::EEXIST),
            Self::Refused { errno, .. } => Some(*errno),
            Self::Deadline { .. } => Some(Errno::ETIMEDOUT),
            Self::Endless { .. } | Self::Decode { .. } => None,
            Self::Socket { source, .. } => source.raw_os_error().map(Errno::from_raw),
        }
    }

    /// Whether the driver waited for the card's firmware in vain. mlx5 waits 60 s for a command
    /// (`drivers/net/ethernet/mellanox/mlx5/core/cmd.c: wait_func`).
    pub fn is_firmware_timeout(&self) -> bool {
        matches!(self, Self::Refused { errno: Errno::ETIMEDOUT, .. })
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns the error that an object does not exist, for a caller that found this out itself.
    pub fn not_found(operation: &'static str, object: impl Into<String>) -> Self {
        Self::NotFound { operation, object: object.into(), extack: Extack::default() }
    }

    pub(crate) fn refused(operation: &'static str, object: String, errno: Errno, extack: Extack) -> Self {
        match errno {
            Errno::ENODEV | Errno::ENOENT | Errno::ESRCH => Self::NotFound { operation, object, extack },
            Errno::EEXIST => Self::Exists { operation, object, extack },
            _ => Self::Refused { operation, object, errno, extack },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_number_tells_whether_an_object_exists() {
        for (errno, is_not_found, is_exists) in [
            (Errno::ENODEV, true, false),
            (Errno::ENOENT, true, false),
            (Errno::ESRCH, true, false),
            (Errno::EEXIST, false, true),
            (Errno::EBUSY, false, false),
            (Errno::EADDRNOTAVAIL, false, false),
        ] {
            let error = Error::refused("delete", "link net1".into(), errno, Extack::default());
            assert_eq!(error.is_not_found(), is_not_found, "{errno}");
            assert_eq!(matches!(error, Error::Exists { .. }), is_exists, "{errno}");
            if !is_not_found {
                assert_eq!(error.errno(), Some(errno));
            }
        }
    }

    #[test]
    fn an_error_of_the_socket_has_its_number_and_a_late_reply_is_a_timeout() {
        let (operation, object) = ("delete", String::new());
        let source = io::Error::from(Errno::ENOBUFS);
        assert_eq!(Error::Socket { operation, object: object.clone(), source }.errno(), Some(Errno::ENOBUFS));
        let late = Error::Deadline { operation, object: object.clone(), within: Duration::ZERO };
        assert_eq!(late.errno(), Some(Errno::ETIMEDOUT));
        assert_eq!(Error::Endless { operation, object, datagrams: 1 }.errno(), None);
    }
}
