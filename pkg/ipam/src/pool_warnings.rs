//! What kept pools from being known.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::PoolReadError;

/// What was not there or could not be used where pools were looked for. Prints as what follows an error's text.
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

    /// The files that cannot be used, each with the reason.
    pub fn unusable(&self) -> &[String] {
        &self.unusable
    }
}

impl fmt::Display for PoolWarnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for directory in &self.missing {
            write!(f, "; there is no directory {}", directory.display())?;
        }
        match self.unusable.as_slice() {
            [] => Ok(()),
            files => write!(
                f,
                "; no pool is known of a file that cannot be used, correct it: {}",
                files.join("; ")
            ),
        }
    }
}
