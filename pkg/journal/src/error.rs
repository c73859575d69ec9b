//! Errors of a journal and of a revert.

use std::{fmt, path::PathBuf};

use crate::JournalHeader;

/// An error of the journal itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The attachment exists: its ADD was completed and no DEL has removed it.
    #[error("attachment {} of network {} already exists ({})", head.attachment, head.network, path.display())]
    Exists {
        /// The path of the journal.
        path: PathBuf,
        /// The header of the journal.
        head: Box<JournalHeader>,
    },
    /// The file could not be parsed and was quarantined.
    #[error("{why}; moved to {}", quarantine.display())]
    Quarantined {
        /// The new path, for example `NAME.bad`.
        quarantine: PathBuf,
        /// The former path and why it could not be parsed.
        why: String,
    },
    /// A change cannot be encoded as JSON.
    #[error("cannot encode a change: {0}")]
    Encode(serde_json::Error),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A test injected a fault, see `SILKRAIL_FAULT`.
    #[error("injected fault")]
    Injected,
}

/// A change that could not be reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertFailure {
    /// The change, as it prints itself.
    pub change: String,
    /// Why the revert failed.
    pub why: String,
}

impl fmt::Display for RevertFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.change, self.why)
    }
}

/// An operation failed, and some of its changes could not be reverted.
#[derive(Debug)]
pub struct AbortError<E> {
    /// The error of the operation.
    pub cause: E,
    /// The changes that could not be reverted.
    pub left: Vec<RevertFailure>,
}
