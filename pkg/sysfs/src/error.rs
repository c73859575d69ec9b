//! Something in sysfs that could not be read, or made no sense.

use std::{io, path::PathBuf};

/// Why sysfs gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not there.
    #[error("{what}: not found (no {})", path.display())]
    NotFound {
        /// In the operator's words, like `VF 0000:af:00.2`.
        what: String,
        /// The file that would have to be there.
        path: PathBuf,
    },
    /// The kernel refused to read.
    #[error("read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file holds something else than it should.
    #[error("{} holds {text:?}: expected {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it holds.
        text: String,
        /// What it should hold.
        expected: &'static str,
    },
}

impl Error {
    /// Whether what was asked for is simply not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}
