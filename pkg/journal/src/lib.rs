//! A write-ahead journal of the changes that an attachment makes on the node.
//!
//! Each change is a value ([`Change`]) that can revert itself and verify that it is in place. It is recorded in
//! the attachment's [`Journal`] *before* it is made, so a later call can revert it even if the process was
//! killed. A failing ADD, DEL, GC and the next ADD revert changes with the same [`Journal::revert`]; CHECK is
//! [`Journal::verify`].
//!
//! The file consists of a header line, one line for each change, and a last line once the ADD is complete. Lines
//! are only appended. A last line without a newline was being written when the process died: its change was not
//! made. The process that works on an attachment holds an exclusive lock (flock(2)) on the file.

#![forbid(unsafe_code)]

mod change;
mod content;
mod current_boot;
mod error;
mod fault_injection;
mod header;
mod journal;
mod journal_status;
mod recorded_pod;
mod step_times;

pub use change::Change;
pub use content::JournalContent;
pub use current_boot::boot_id;
pub use error::{AbortError, Error, RevertFailure};
pub use header::JournalHeader;
pub use journal::Journal;
pub use journal_status::{JournalReadError, JournalStatus};
pub use recorded_pod::RecordedPod;
pub use step_times::{Milliseconds, StepTimes};
