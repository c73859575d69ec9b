//! Why a state file could not be read or written.

use std::{io, path::PathBuf, time::Duration};

/// A state file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file already exists.
    #[error("{}: already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process holds the file's lock.
    #[error(
        "{}: timed out after {:.1} s waiting for its lock; `fuser -v {}` shows the process that holds it; try again later",
        path.display(), waited.as_secs_f64(), path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The path is a symbolic link, a directory or a pipe, which this crate never creates.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {operation} {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The verb for the message, such as `open`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A remedy for common errors.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => " (the file system of the state directory is full: free space there)",
        io::ErrorKind::ReadOnlyFilesystem => {
            " (the state directory must be writable: set stateDir, or mount it read-write)"
        }
        io::ErrorKind::Unsupported => {
            " (not supported by the file system of the state directory: use a local one, preferably the tmpfs of /run)"
        }
        io::ErrorKind::PermissionDenied => " (the plugin must run as root)",
        _ => "",
    }
}
