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
    /// The path is not a directory, or is a symbolic link to one.
    #[error("{}: not a directory; symbolic links are not followed", path.display())]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// Another user owns the file or directory, or can write it.
    #[error(
        "{}: owned by user {uid} with mode {mode:o}; expected root, and mode 755 or less: what state files contain is done as root; \
         if root did not write it, remove it",
        path.display()
    )]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its permissions.
        mode: u32,
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

impl Error {
    /// Whether the file or its directory does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the path is one that Silkrail did not write: not a regular file, or another user's.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::NotRegular { .. } | Self::Foreign { .. })
    }
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
        io::ErrorKind::FileTooLarge => {
            " (state contains the configuration of the network: shorten that, for example by pools in files instead of inline)"
        }
        io::ErrorKind::PermissionDenied => " (the plugin must run as root)",
        _ => "",
    }
}
