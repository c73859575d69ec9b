//! Why a policy cannot be used, or what it refuses.

/// The policy cannot be used, or refuses a call.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be read, or another user could have written it.
    #[error("the policy of the node cannot be read: {}", file_problem(.0))]
    File(#[from] statefile::Error),
    /// It is not valid. No part of it is used.
    #[error("the policy of the node is not valid: {place}: {what}")]
    Invalid {
        /// The file, and the line if it is known.
        place: String,
        /// The key with its path, and what was expected.
        what: String,
    },
    /// It does not allow what a call takes.
    #[error("{what} ({place})")]
    Refused {
        /// What is refused, the rule, and what the rule allows.
        what: String,
        /// The file, and the line of the rule or of its list.
        place: String,
    },
}

/// A state file of another user is to be removed. A policy is not: without it, everything is allowed.
fn file_problem(error: &statefile::Error) -> String {
    match error {
        statefile::Error::Foreign { path, uid, mode } => {
            let path = path.display();
            format!(
                "{path}: owned by user {uid} with mode {mode:o}; expected root, and that only root can write it"
            )
        }
        error => error.to_string(),
    }
}

impl PolicyError {
    /// Returns what to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(statefile::Error::Foreign { .. }) => {
                "no pod gets a network until the file and its directories belong to root (`chown root:root`) and only root can \
                 write them (`chmod go-w`)"
            }
            Self::File(_) => "no pod gets a network until it is a regular file that root can read",
            Self::Invalid { .. } => "no pod gets a network until it is corrected; nothing was changed",
            Self::Refused { .. } => {
                "nothing was changed: change the network, or ask the administrator of the node to change the policy"
            }
        }
    }
}
