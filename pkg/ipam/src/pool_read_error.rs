//! Why pools cannot be read.

use std::{io, path::PathBuf};

use crate::{InvalidPool, InvalidYaml};

/// Pools cannot be read or parsed.
#[derive(Debug, thiserror::Error)]
pub enum PoolReadError {
    /// A file or the directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or the directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file is not valid YAML.
    #[error("{}: {problem}", path.display())]
    Yaml {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser.
        problem: InvalidYaml,
    },
    /// A file is not valid JSON.
    #[error("{}: {problem}", path.display())]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// The error of the parser.
        problem: serde_json::Error,
    },
    /// A document contains an invalid value.
    #[error("{origin}: {problem}")]
    Invalid {
        /// The file, and the number of the document if it has several.
        origin: String,
        /// The key and the error.
        problem: InvalidPool,
    },
    /// A file is empty.
    #[error("{}: the file is empty, possibly because it is being written; remove it if it is not needed", .0.display())]
    Empty(PathBuf),
    /// A file that cannot be parsed may reserve addresses.
    #[error("{0}; no pool of the directory is used, because the file may reserve addresses")]
    Reservation(Box<PoolReadError>),
}
