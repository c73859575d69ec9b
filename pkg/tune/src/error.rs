//! Why settings could not be read, saved or written.

use std::{io, path::PathBuf};

use crate::Setting;

/// Why settings could not be read, saved or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting could not be read.
    #[error("{knob}: {source}")]
    Read {
        /// The setting.
        knob: Setting,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The saved settings could not be parsed.
    #[error("{}: {source}; nothing can be reverted with it: move it away if it is not needed", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// The saved settings could not be locked, read or written.
    #[error(transparent)]
    StateFile(#[from] statefile::Error),
}
