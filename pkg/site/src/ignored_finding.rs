//! A finding that a site knows and accepts.

use serde::{Deserialize, Serialize};

use crate::{Date, NamePattern, NodePatterns};

/// A kind of finding that is not reported about some objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoredFinding {
    /// The kind: `link-down`.
    pub finding: String,
    /// The objects, as the doctor names them; all if it is missing.
    pub object: Option<NamePattern>,
    /// The nodes; all if empty.
    #[serde(default)]
    pub nodes: NodePatterns,
    /// Why it is accepted.
    pub reason: String,
    /// The last day on which it is accepted.
    pub until: Option<Date>,
}

impl IgnoredFinding {
    /// Whether it accepts a finding about an object of a node at a time in seconds since 1970.
    pub fn accepts(&self, finding: &str, object: &str, node: &str, now: u64) -> bool {
        self.finding == finding
            && self.object.as_ref().is_none_or(|pattern| pattern.matches(object))
            && self.nodes.include(node)
            && !self.is_over(now)
    }

    /// Whether its last day is over.
    pub fn is_over(&self, now: u64) -> bool {
        self.until.as_ref().is_some_and(|until| until.is_over(now))
    }
}
