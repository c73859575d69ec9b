//! Why a network cannot be used.

/// A network that a runtime or Multus refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNetwork {
    /// The text is not JSON, or a NetworkAttachmentDefinition has a `spec.config` that is not.
    #[error("it is not valid JSON: {0}")]
    Json(String),
    /// The JSON is not an object.
    #[error("expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// A key is missing.
    #[error("{0}: missing")]
    Missing(String),
    /// A key has a value of another type.
    #[error("{key}: expected {expected}, found {found}")]
    Type {
        /// The path of the key, such as `plugins[0].type`.
        key: String,
        /// The expected type.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// The list of plugins is empty.
    #[error("plugins: expected at least one plugin, found none")]
    NoPlugins,
}
