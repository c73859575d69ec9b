//! Why an agent refuses a request, or failed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sanitized_text::SanitizedText;

/// A refusal or failure of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRefusal {
    /// The reason, for programs.
    pub reason: RefusalReason,
    /// The reason, for people.
    pub message: SanitizedText,
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalReason {
    /// Another test is running, or there are too many clients.
    Busy,
    /// The token is wrong or missing.
    Token,
    /// The client uses another version of the protocol.
    Version,
    /// The address that the client connected to is not one of the agent's.
    Address,
    /// The output of perftest was not usable; a retry can succeed.
    Unusable,
    /// The test failed.
    Failed,
}

impl fmt::Display for AgentRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}
