//! What is invalid in a configuration.

use std::fmt;

/// Why a file is no configuration at all.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// It is not a mapping with the keys of one of the forms.
    #[error(
        "expected a mapping with resourceList or configList, a ConfigMap whose data has one, or a node file with \
         devicePlugin"
    )]
    Shape,
    /// It does not contain exactly one document.
    #[error("expected one document, found {0}")]
    Documents(usize),
    /// A file in a ConfigMap is invalid.
    #[error("data[{key:?}]: {error}")]
    Data {
        /// The key.
        key: String,
        /// The error of its value.
        error: Box<InvalidConfig>,
    },
}

impl InvalidConfig {
    /// Returns the error of a file that is a value of a ConfigMap.
    pub(super) fn of_data(self, key: &str) -> Self {
        Self::Data { key: key.to_owned(), error: Box::new(self) }
    }
}

/// Something in a configuration that is invalid or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1; `None` in a ConfigMap, whose files have lines of their own.
    pub line: Option<usize>,
    /// The path of the key, such as `resourceList[0].selectors[1].vendors`.
    pub path: String,
    /// What is wrong, and what is expected.
    pub what: String,
    /// Whether the resource is not used because of it.
    pub is_refused: bool,
}

impl Finding {
    /// Returns the finding of a file that is a value of another one.
    pub(super) fn below(self, path: &str) -> Self {
        Self { path: format!("{path}: {}", self.path), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        let result = if self.is_refused { "the resource is not used" } else { "ignored" };
        write!(f, "{}: {} ({result})", self.path, self.what)
    }
}
