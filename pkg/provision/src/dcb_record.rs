//! The record of a PF's DCB settings: which changes are silkrail's.

use dcb::{DcbChange, DcbSettings};
use serde::{Deserialize, Serialize};

/// The changes of a PF's DCB settings since the boot. Those that the node file does not contain any more are reverted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DcbRecord {
    /// The changes that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<DcbChange>,
    /// The changes that a run is about to make. If it is killed, the settings of the link show which of them it has made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<DcbChange>,
}

impl DcbRecord {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty() && self.pending.is_empty()
    }

    /// Returns the changes that were made, including those of a killed run.
    pub(crate) fn made_in(&self, settings: &DcbSettings) -> Vec<DcbChange> {
        let mut made = self.made.clone();
        let killed = self.pending.iter().filter(|change| change.is_in_place(settings));
        killed.cloned().for_each(|change| change.record(&mut made));
        made
    }
}

#[cfg(test)]
mod tests {
    use dcb::{AppPriority, AppSelector, Pfc};

    use super::*;

    fn pfc(from: &[u8], to: &[u8]) -> DcbChange {
        DcbChange::Pfc { from: from.to_vec(), to: to.to_vec() }
    }

    /// A run is killed after each number of its changes, and the record shows what it has made.
    #[test]
    fn the_changes_of_a_killed_run_are_those_in_place() {
        let app = AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 };
        let pending = vec![DcbChange::AddApp(app), pfc(&[], &[3])];
        let record = DcbRecord { made: Vec::new(), pending: pending.clone() };
        let settings = |apps: &[AppPriority], enabled: &[u8]| DcbSettings {
            apps: apps.to_vec(),
            pfc: Some(Pfc { enabled: enabled.to_vec(), ..Pfc::default() }),
            ..DcbSettings::default()
        };
        assert!(record.made_in(&settings(&[], &[])).is_empty());
        assert_eq!(record.made_in(&settings(&[app], &[])), pending[..1]);
        assert_eq!(record.made_in(&settings(&[app], &[3])), pending);
        let reverting = DcbRecord { made: pending, pending: vec![pfc(&[3], &[]), DcbChange::RemoveApp(app)] };
        assert_eq!(reverting.made_in(&settings(&[app], &[3])).len(), 2, "none was reverted");
        assert_eq!(reverting.made_in(&settings(&[app], &[])), [DcbChange::AddApp(app)]);
        assert!(reverting.made_in(&settings(&[], &[])).is_empty());
    }
}
