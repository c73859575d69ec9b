//! Changes of settings and their outcomes.

use serde::{Deserialize, Serialize};

use crate::Setting;

/// A change of a setting from its current to its desired value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingChange {
    /// The setting to change.
    pub knob: Setting,
    /// The current value.
    pub from: String,
    /// The desired value.
    pub to: String,
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingOutcome {
    /// The attempted change.
    #[serde(flatten)]
    pub change: SettingChange,
    /// Why the change failed; `None` if it was made.
    pub error: Option<String>,
}
