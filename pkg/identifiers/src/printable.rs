//! Characters of untrusted text that must not be written to a terminal or a log.

/// Whether a character is a control character, or changes the direction of text.
pub fn is_unprintable(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Some log viewers end a line at a line or paragraph separator.
    changes_direction || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_distinguished_from_text() {
        assert!(
            [
                '\u{1b}', '\u{9b}', '\u{7f}', '\n', '\0', '\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}',
                '\u{2029}'
            ]
            .into_iter()
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}')
            .all(is_unprintable)
        );
        assert!(!['a', ' ', 'é', '中', 'ع', '\u{301}', '🦀'].into_iter().any(is_unprintable));
    }
}
