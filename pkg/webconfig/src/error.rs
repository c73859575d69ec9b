//! Errors of web configurations.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A web configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of open(2) or read(2).
        source: io::Error,
    },
    /// The type, owner, mode or encoding of a file is not acceptable.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem and the remedy.
        why: String,
    },
    /// The content is invalid.
    #[error("{}: line {line}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// The problem, and what was expected.
        why: String,
    },
}

/// An error on a line of the configuration file.
#[derive(Debug, PartialEq, Eq)]
pub struct LineError {
    pub(crate) line: u64,
    pub(crate) why: String,
}

impl LineError {
    /// Returns the line number, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the problem, and what was expected.
    pub fn why(&self) -> &str {
        &self.why
    }

    pub(crate) fn at(line: u64, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }

    pub(crate) fn of(self, path: &Path) -> Error {
        Error::Invalid { path: path.to_owned(), line: self.line, why: self.why }
    }
}
