//! A pattern of names.

use identifiers::pattern;
use serde::{Deserialize, Serialize};

/// A pattern with `*`, `?`, `[a-c]` and `[^a-c]`. Upper and lower case are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct NamePattern(String);

impl NamePattern {
    /// Whether a whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        pattern::matches(&self.0.to_ascii_lowercase(), &name.to_ascii_lowercase()) == Ok(true)
    }

    /// Whether a PCI ID matches, with or without `0x` on both sides.
    pub(crate) fn matches_id(&self, id: &str) -> bool {
        let (wanted, id) = (self.0.to_ascii_lowercase(), id.to_ascii_lowercase());
        let without = |text: &str| text.strip_prefix("0x").unwrap_or(text).to_owned();
        pattern::matches(&without(&wanted), &without(&id)) == Ok(true)
    }
}

impl TryFrom<String> for NamePattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty: expected a name, or a pattern like 'ens*np0'".into());
        }
        match pattern::matches(&text, "") {
            Ok(_) => Ok(Self(text)),
            Err(pattern::BadPattern) => {
                Err(format!("the pattern {text:?} is not valid: it ends within […] or after a backslash"))
            }
        }
    }
}

impl std::fmt::Display for NamePattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
