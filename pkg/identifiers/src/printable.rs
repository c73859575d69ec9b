//! Which characters of other people's texts may go to a terminal or a log.

/// Whether a character steers a terminal or turns the text around it: control characters, and those that set the direction
/// of writing.
pub fn is_unprintable(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // The separators of lines and paragraphs end a line for some who read a log.
    turns || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_or_turns_is_told_from_text() {
        assert!(
            ['\u{1b}', '\u{9b}', '\u{7f}', '\n', '\0', '\u{202e}', '\u{2067}', '\u{200f}']
                .into_iter()
                .all(is_unprintable)
        );
        assert!(!['a', ' ', 'é', '中', 'ع', '\u{301}', '🦀'].into_iter().any(is_unprintable));
    }
}
