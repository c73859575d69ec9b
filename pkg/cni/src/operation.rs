//! The operations of the protocol.

/// An operation of the protocol: the value of `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the operation of that name")]
pub enum Operation {
    Add,
    Del,
    Check,
    Gc,
    Status,
    Version,
}

impl Operation {
    /// Returns the operation that `CNI_COMMAND` selects, for example `ADD`.
    pub fn from_command(command: &str) -> Option<Self> {
        [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version]
            .into_iter()
            .find(|operation| operation.as_str() == command)
    }

    /// Returns the value of `CNI_COMMAND` that selects the operation.
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
