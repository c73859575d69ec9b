//! The errors of this crate.

use std::{io, path::PathBuf};

/// Why governors could not be read, set or restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The saved values could not be read or written, or another process holds the lock.
    #[error(transparent)]
    State(#[from] statefile::Error),
    /// The file of saved values could not be parsed.
    #[error("{}: {source}; check the governors, then remove the file", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file of sysfs, or the lock, could not be opened, read or written.
    #[error("{what}: {source}")]
    Io {
        /// The operation, for example `open /var/lib/silkrail/check/governor.lock`.
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
}

pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}
