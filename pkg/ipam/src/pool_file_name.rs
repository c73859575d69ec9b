//! The names of pool files.

use std::path::Path;

/// Whether a file of a pool directory is read, by its name.
pub(crate) fn is_pool_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_pool_file_name(name.as_encoded_bytes()))
}

/// As [`is_pool_file`], for a file name without directory.
pub(crate) fn is_pool_file_name(name: &[u8]) -> bool {
    let ends: [&[u8]; 3] = [b".yaml", b".yml", b".json"];
    !name.starts_with(b".") && ends.iter().any(|end| name.ends_with(end))
}
