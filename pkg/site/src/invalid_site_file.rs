//! Why a text is not a valid site file.

/// Why a text is not a valid site file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSiteFile {
    /// It is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// It does not contain exactly one document.
    #[error("expected one YAML document with the keys roles, gpus and ignore, found {0}")]
    Documents(usize),
    /// It is not a mapping.
    #[error("expected a mapping with the keys roles, gpus and ignore, found {0}")]
    Shape(&'static str),
    /// A key or value is not valid.
    #[error("{path}: {what}")]
    Content {
        /// The path of the key, like `roles[0].rate`.
        path: String,
        /// The error.
        what: String,
    },
}
