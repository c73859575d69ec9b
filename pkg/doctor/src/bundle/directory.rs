//! The names in a directory.

use std::{fs, path::Path};

/// The maximum number of names.
const MAX_NAMES: usize = 4096;

/// Returns the names, sorted; none if the directory cannot be read.
pub(super) fn names(root: &Path, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(dir)).into_iter().flatten().flatten().take(MAX_NAMES);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
