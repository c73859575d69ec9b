//! Reads the state of a journal of any plugin without changing it.

use std::{
    fs::{File, TryLockError},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use serde::de::IgnoredAny;

use crate::{JournalContent, JournalHeader};

/// The state of a journal. The changes are not included: only the plugin that wrote them can parse them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStatus {
    /// The header, which names the attachment.
    pub head: JournalHeader,
    /// Whether the ADD was completed.
    pub complete: bool,
    /// Whether another process holds its lock: an ADD, DEL or CHECK is in progress.
    pub at_work: bool,
    /// The inode number, which distinguishes it from a later journal of the same attachment.
    pub inode: u64,
}

/// A journal could not be read or parsed.
#[derive(Debug, thiserror::Error)]
pub enum JournalReadError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// The content is malformed or has a newer format version.
    #[error("{0}")]
    Content(String),
}

impl JournalStatus {
    /// Reads a journal; `None` if the file does not exist.
    ///
    /// # Errors
    /// [`JournalReadError`] if it cannot be read or parsed.
    pub fn read_status(path: &Path) -> Result<Option<Self>, JournalReadError> {
        let Some(mut file) = statefile::open(path)? else { return Ok(None) };
        let io = |source| statefile::Error::Io { operation: "read", path: path.to_owned(), source };
        let at_work = is_locked(&file).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let inode = file.metadata().map_err(io)?.ino();
        let JournalContent::<IgnoredAny> { head, complete, .. } =
            JournalContent::parse(&bytes).map_err(JournalReadError::Content)?;
        Ok(Some(Self { head, complete, at_work, inode }))
    }
}

/// Whether another process holds the lock. If not, the lock is taken and released at once.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
