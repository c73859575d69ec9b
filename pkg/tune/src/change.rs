//! What is to be changed, and what became of it.

use serde::{Deserialize, Serialize};

use crate::Knob;

/// A setting that is other than it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The setting.
    pub knob: Knob,
    /// What it is.
    pub from: String,
    /// What it should be.
    pub to: String,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// Why it was not made; none if it was.
    pub error: Option<String>,
}
