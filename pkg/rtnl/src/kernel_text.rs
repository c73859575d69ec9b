//! Texts of the kernel.

use identifiers::is_unprintable;

/// Returns a text of the kernel without its terminating zero. Invalid UTF-8 and control characters are replaced by U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = |c: char| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}
