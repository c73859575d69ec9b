//! Why documents cannot be rendered.

/// Why a document cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDocument {
    /// The text is not YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// A value is missing or invalid.
    #[error("{object}: {path}: {what}")]
    Value {
        /// The object: `SpiderMultusConfig kube-system/rail0`.
        object: String,
        /// The path of its key: `spec.macvlan.master`.
        path: String,
        /// What is wrong, and what was expected.
        what: String,
    },
}
