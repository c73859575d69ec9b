//! Why a text is not a valid node file.

/// Why a text is not a valid node file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNodeFile {
    /// It is not valid YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::InvalidYaml),
    /// It does not contain exactly one document.
    #[error("{}", documents(*.0))]
    Documents(usize),
    /// It is not a mapping.
    #[error("expected keys like rdmaMode and pfs, found {0} (`silkrail apply --help` shows an example)")]
    Shape(&'static str),
    /// A key or value is not valid.
    #[error("{path}: {what}")]
    Content {
        /// The path of the key, like `pfs[0].vfs`.
        path: String,
        /// The error.
        what: String,
    },
}

fn documents(found: usize) -> String {
    match found {
        0 => "the file is empty: expected keys like rdmaMode and pfs (`silkrail apply --help` shows an example)".into(),
        _ => format!("expected one YAML document, found {found}: remove the others"),
    }
}
