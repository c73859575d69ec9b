//! What a runtime asks of a plugin.

/// A verb of the protocol, as `CNI_COMMAND` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the verb it names")]
pub enum Operation {
    Add,
    Del,
    Check,
    Gc,
    Status,
    Version,
}

impl Operation {
    /// The verb `CNI_COMMAND` names.
    pub fn from_command(command: &str) -> Option<Self> {
        [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version]
            .into_iter()
            .find(|verb| verb.as_str() == command)
    }

    /// The verb's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }
}
