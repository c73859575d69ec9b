//! The nodes that a part of the file is about.

use serde::{Deserialize, Serialize};

use crate::NamePattern;

/// Patterns of node names; all nodes if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodePatterns(Vec<NamePattern>);

impl NodePatterns {
    /// Whether a node is meant: by its name, or by its first label, which is the name without the domain.
    pub fn include(&self, node: &str) -> bool {
        let label = node.split('.').next().unwrap_or(node);
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(node) || pattern.matches(label))
    }
}
