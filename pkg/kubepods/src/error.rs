//! The error of reading a file of the node.

use std::{io, path::PathBuf};

/// A file or directory of the node cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Opening or reading it failed.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The error of open(2) or read(2).
        source: io::Error,
    },
}
