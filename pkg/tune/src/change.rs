//! What is to be changed, and what became of it.

use serde::{Deserialize, Serialize};

use crate::Setting;

/// A setting that is other than it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingChange {
    /// The setting.
    pub knob: Setting,
    /// What it is.
    pub from: String,
    /// What it should be.
    pub to: String,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingOutcome {
    /// The change.
    #[serde(flatten)]
    pub change: SettingChange,
    /// Why it was not made; none if it was.
    pub error: Option<String>,
}
