//! Files of state: each appears whole or not at all, and is never followed through a symbolic link.
//!
//! A plugin may be killed between any two system calls, and others may run beside it. So a file is written
//! under no name and then linked to its own ([`create()`]), or written under another name and then renamed
//! ([`replace`]). Nothing of that is synced to the disk: state lives in `/run`, and what a power cut would lose
//! describes a node that is gone with it. What outlives boots is written by [`replace_durably`].

#![forbid(unsafe_code)]

mod create;
mod durable;
mod lock;
mod read;

pub use create::{create, make_dir, replace};
pub use durable::replace_durably;
pub use lock::lock;
pub use read::{StateFileContent, is_quarantined, open, original_name, quarantine, read, remove, whole};

use std::{io, path::PathBuf, time::Duration};

/// A file of state could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is there already.
    #[error("{}: already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else holds the file's lock.
    #[error(
        "{}: another process has held its lock for {:.1} s; `fuser -v {}` shows which, and the call can be repeated",
        path.display(), waited.as_secs_f64(), path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A symbolic link, a directory or a pipe is in the file's place: none of ours.
    #[error("{}: is no regular file", path.display())]
    Strange {
        /// Where the file should be.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{operation} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What to do about the failures an operator meets.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => " (the file system of the state directory is full: free space there)",
        io::ErrorKind::ReadOnlyFilesystem => {
            " (the state directory must be writable: set stateDir, or mount it read-write)"
        }
        io::ErrorKind::Unsupported => {
            " (the file system of the state directory cannot do that: use a local one, best the tmpfs of /run)"
        }
        io::ErrorKind::PermissionDenied => " (the plugin must run as root)",
        _ => "",
    }
}
