//! Text from other hosts that is safe to print on a terminal, on a page and in a file.

use serde::{Deserialize, Serialize};

/// A text of at most 256 characters without control characters, from any source.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct SanitizedText(String);

impl SanitizedText {
    const MAX: usize = 256;

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SanitizedText {
    fn from(text: String) -> Self {
        Self(plain(&text, Self::MAX))
    }
}

impl From<&str> for SanitizedText {
    fn from(text: &str) -> Self {
        Self(plain(text, Self::MAX))
    }
}

impl std::fmt::Display for SanitizedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// Truncates a text to `most` characters and replaces control characters by `?`, so that it is safe for a terminal.
pub(crate) fn plain(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if identifiers::is_unprintable(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitized_text_cannot_control_a_terminal() {
        let text: SanitizedText = serde_json::from_str(r#""a\u001b[2Jb\nc\u009b""#).unwrap();
        assert_eq!(text.as_str(), "a?[2Jb?c?");
        assert_eq!(
            SanitizedText::from("rail\u{202e}0\u{2066}").as_str(),
            "rail?0?",
            "bidirectional formatting characters are replaced too"
        );
        assert_eq!(SanitizedText::from("x".repeat(1000)).as_str().len(), 256);
    }
}
