//! A request to the kernel that failed.

use std::{io, time::Duration};

use netlink_packet_core::DecodeError;
use nix::errno::Errno;

use crate::Extack;

/// A request to the kernel failed. The text reads `operation object: cause`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object is not there. A clean-up treats this as done.
    #[error("{operation} {object}: not found{extack}")]
    NotFound {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// The kernel's own words.
        extack: Extack,
    },
    /// The object, or another of that name, is there already.
    #[error("{operation} {object}: already exists{extack}")]
    Exists {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// The kernel's own words.
        extack: Extack,
    },
    /// The kernel refused for another reason.
    #[error("{operation} {object}: {}{extack}", errno.desc())]
    Refused {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// The reason.
        errno: Errno,
        /// The kernel's own words.
        extack: Extack,
    },
    /// The kernel did not answer in time. A change may have been made.
    #[error("{operation} {object}: no answer within {within:?}")]
    Deadline {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// How long was waited.
        within: Duration,
    },
    /// The kernel did not come to the end of a list. The list is still going on: this socket can list nothing
    /// else (`EBUSY`), a new one can.
    #[error("{operation} {object}: the kernel's list has no end: given up after {datagrams} datagrams")]
    Endless {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// How many datagrams were read.
        datagrams: usize,
    },
    /// The answer could not be understood.
    #[error("{operation} {object}: {source}")]
    Decode {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// What was wrong with the answer.
        source: DecodeError,
    },
    /// The socket failed.
    #[error("{operation} {object}: netlink socket: {source}")]
    Socket {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        object: String,
        /// The system call's error.
        source: io::Error,
    },
}

impl Error {
    /// The kernel's error number, where it gave one.
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

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// The error that an object is not there, where the kernel did not have to say so.
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
