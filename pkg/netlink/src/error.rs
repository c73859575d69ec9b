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
