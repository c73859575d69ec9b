//! Why a text cannot be parsed.

/// Maximum depth of nested lists and mappings.
pub(crate) const MAX_DEPTH: usize = 64;
/// Maximum number of values in one text. Aliases count at each use, and long strings as several values.
pub(crate) const MAX_VALUES: usize = 1_000_000;

/// Why a text cannot be parsed as YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidYaml {
    /// The text is not valid YAML.
    #[error("line {line}: {info}")]
    Syntax {
        /// The line number, from 1.
        line: usize,
        /// The message of the parser.
        info: String,
    },
    /// A mapping has a duplicate key.
    #[error("line {line}: duplicate key {key:?}; remove one")]
    DuplicateKey {
        /// The line number, from 1.
        line: usize,
        /// The duplicate key.
        key: String,
    },
    /// A key is not a scalar.
    #[error("line {line}: a mapping key must be a string")]
    Key {
        /// The line number, from 1.
        line: usize,
    },
    /// An alias has no anchor, or is inside its own anchor.
    #[error("line {line}: alias without a complete anchor")]
    Alias {
        /// The line number, from 1.
        line: usize,
    },
    /// The nesting is too deep, or the text with expanded aliases is too large.
    #[error("line {line}: more than {MAX_DEPTH} levels or {MAX_VALUES} values")]
    TooLarge {
        /// The line number, from 1.
        line: usize,
    },
}
