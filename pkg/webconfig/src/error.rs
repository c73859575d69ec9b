//! What is wrong with a web configuration.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A web configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is none that could be trusted.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Something in it is wrong.
    #[error("{}: line {line}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: u64,
        /// What is wrong, and what was expected.
        why: String,
    },
}

/// What is wrong on a line.
#[derive(Debug, PartialEq, Eq)]
pub struct LineError {
    pub(crate) line: u64,
    pub(crate) why: String,
}

impl LineError {
    /// Where, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// What is wrong, and what was expected.
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
