//! Where a network configuration can name a directory or a file.

use std::path::{Component, Path};

/// Whether a path is below one of the places, and its first name there has one of the beginnings.
///
/// The author of a configuration need not be root. Root alone writes to the places, and what is there under another name is of another
/// program: a plugin must neither use it nor say what it contains.
pub fn is_below(path: &Path, places: &[&str], beginnings: &[&str]) -> bool {
    places.iter().any(|place| {
        let Ok(below) = path.strip_prefix(place) else { return false };
        let mut parts = below.components();
        let has_beginning = |part: Component<'_>| {
            let name = part.as_os_str().as_encoded_bytes();
            beginnings.iter().any(|beginning| name.starts_with(beginning.as_bytes()))
        };
        parts.next().is_some_and(has_beginning) && parts.all(|part| matches!(part, Component::Normal(_)))
    })
}
