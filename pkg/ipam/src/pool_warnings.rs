//! Warnings about pool files and directories that could not be read.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::PoolReadError;

/// The missing directories and unusable files of pools. Prints as a suffix of an error message, starting with `; `.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolWarnings {
    missing: Vec<PathBuf>,
    unusable: Vec<String>,
}

impl PoolWarnings {
    pub(crate) fn no_directory(&mut self, path: &Path) {
        self.missing.push(path.to_owned());
    }

    pub(crate) fn unusable_file(&mut self, error: &PoolReadError) {
        self.unusable.push(error.to_string());
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.missing.extend(other.missing);
        self.unusable.extend(other.unusable);
    }

    /// Returns the files that cannot be used, each with the reason.
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }
}

impl fmt::Display for PoolWarnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for directory in &self.missing {
            write!(f, "; directory {} does not exist", directory.display())?;
        }
        match self.unusable.as_slice() {
            [] => Ok(()),
            files => {
                write!(f, "; these files and their pools are ignored, correct them: {}", files.join("; "))
            }
        }
    }
}
