//! Text of others that will be printed: on a terminal, in a page, in a file.

use serde::{Deserialize, Serialize};

/// A short text without control characters, whoever sent it.
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

/// At most so many characters, and no control characters among them: what a peer says may go to a terminal.
pub(crate) fn plain(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if identifiers::is_unprintable(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_steer_a_terminal() {
        let label: SanitizedText = serde_json::from_str(r#""a\u001b[2Jb\nc\u009b""#).unwrap();
        assert_eq!(label.as_str(), "a?[2Jb?c?");
        assert_eq!(
            SanitizedText::from("rail\u{202e}0\u{2066}").as_str(),
            "rail?0?",
            "nor turn what follows around"
        );
        assert_eq!(SanitizedText::from("x".repeat(1000)).as_str().len(), 256);
    }
}
