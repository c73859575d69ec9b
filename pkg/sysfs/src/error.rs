//! Errors of access to sysfs.

use std::{io, path::PathBuf};

/// A sysfs file that does not exist, cannot be accessed, or has unexpected contents.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist.
    #[error("{what}: not found ({} does not exist)", path.display())]
    NotFound {
        /// The object, for an administrator: `VF 0000:af:00.2`.
        what: String,
        /// The missing file.
        path: PathBuf,
    },
    /// A read or write failed.
    #[error("cannot access {}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The contents of the file have an unexpected format.
    #[error("{}: expected {expected}, got {text:?}", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The contents.
        text: String,
        /// The expected format: `a number`.
        expected: &'static str,
    },
}

impl Error {
    /// Whether the kernel or driver does not support the setting (`EOPNOTSUPP`).
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(nix::libc::EOPNOTSUPP))
    }

    /// Returns whether this is [`Error::NotFound`].
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}
