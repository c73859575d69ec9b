//! What can go wrong with a journal, and with taking changes back.

use std::{fmt, path::PathBuf};

use crate::JournalHeader;

/// The journal itself failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The attachment is there: its ADD was completed and no DEL has taken it back.
    #[error("attachment {} of network {} exists already ({})", head.attachment, head.network, path.display())]
    Exists {
        /// The journal.
        path: PathBuf,
        /// What it says.
        head: Box<JournalHeader>,
    },
    /// The file could not be understood, and was moved out of the way.
    #[error("{why}; moved to {}", aside.display())]
    SetAside {
        /// Where it is now.
        aside: PathBuf,
        /// Which file, and what was wrong with it.
        why: String,
    },
    /// A change cannot be written down.
    #[error("note a change: {0}")]
    Encode(serde_json::Error),
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// A fault was injected by a test.
    #[error("injected fault")]
    Injected,
}

/// A change that could not be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertFailure {
    /// The change.
    pub change: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for RevertFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.change, self.why)
    }
}

/// Something failed, and this is left of it.
#[derive(Debug)]
pub struct AbortError<E> {
    /// What failed.
    pub cause: E,
    /// What could not be taken back.
    pub left: Vec<RevertFailure>,
}
