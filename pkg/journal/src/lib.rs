//! What an attachment changes on the node, on disk before it is made.
//!
//! A plugin that undoes by hand undoes wrongly, and one that remembers in memory forgets when it is killed.
//! So every change is a value ([`Change`]) that knows how to take itself back and how to see whether it is
//! in place, and it is noted in the attachment's [`Journal`] *before* it is made. A failing ADD, DEL, GC and
//! the next ADD take changes back with the same [`Journal::revert`]; CHECK is [`Journal::verify`].
//!
//! The file is a header line and one line for each change, appended; then a line that says that the ADD
//! was completed. A last line without its end was being written when the process died: its change was not
//! made. Who works on an attachment holds the file's lock.

#![forbid(unsafe_code)]

mod change;
mod content;
mod error;
mod fault_injection;
mod header;
mod journal;
mod journal_status;

pub use change::Change;
pub use content::JournalContent;
pub use error::{AbortError, Error, RevertFailure};
pub use header::{JournalHeader, boot_id};
pub use journal::Journal;
pub use journal_status::{JournalReadError, JournalStatus};
