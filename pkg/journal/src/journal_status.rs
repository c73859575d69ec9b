//! What a journal says of its attachment, whoever wrote it.

use std::{
    fs::{File, TryLockError},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use serde::de::IgnoredAny;

use crate::{JournalContent, JournalHeader};

/// A journal, looked at without being touched: which changes it has is its plugin's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStatus {
    /// Whose it is.
    pub head: JournalHeader,
    /// Whether the ADD was completed.
    pub complete: bool,
    /// Whether somebody holds its lock: an ADD, DEL or CHECK is at work.
    pub at_work: bool,
    /// Which file it is: a later journal of the same attachment is another one.
    pub inode: u64,
}

/// A journal that could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum JournalReadError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] statefile::Error),
    /// It makes no sense, or is of a newer version.
    #[error("{0}")]
    Content(String),
}

impl JournalStatus {
    /// Looks at a journal; `None` if it is not there.
    ///
    /// # Errors
    /// [`JournalReadError`].
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

/// Whether somebody holds the lock. If not, it is held for this moment.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
