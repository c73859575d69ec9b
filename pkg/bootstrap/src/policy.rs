//! What the settings of a VF should be.

use inventory::{Pf, Vf};
use rtnl::VfSettingsChange;

use crate::{GuidPolicy, MacPolicy, PfSettings, stable_guid, stable_mac};

/// What is to be done with a VF that is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// The settings to change.
    pub(crate) changes: Vec<VfSettingsChange>,
    /// Whether its driver must read them anew.
    pub(crate) rebind: bool,
}

/// Every setting of a VF that is new. Trust comes before what needs it.
pub(crate) fn all(settings: &PfSettings, pf: &Pf, vf: u32) -> Vec<VfSettingsChange> {
    let own = &settings.vf;
    let mut changes = Vec::new();
    changes.extend(own.trust.map(VfSettingsChange::Trust));
    changes.extend(own.spoof_check.map(VfSettingsChange::SpoofCheck));
    changes.extend(identity(settings, pf, vf));
    changes.extend(own.link_state.map(|state| VfSettingsChange::LinkState(state.number())));
    changes
}

/// By what its driver knows the VF: GUIDs on InfiniBand, a MAC address elsewhere.
fn identity(settings: &PfSettings, pf: &Pf, vf: u32) -> Vec<VfSettingsChange> {
    let Some(seed) = seed(pf) else { return Vec::new() };
    if pf.is_infiniband() {
        return match settings.vf.guid {
            GuidPolicy::Stable => {
                let guid = stable_guid(&seed, vf);
                vec![VfSettingsChange::NodeGuid(guid), VfSettingsChange::PortGuid(guid)]
            }
            GuidPolicy::Keep => Vec::new(),
        };
    }
    match settings.vf.mac {
        MacPolicy::Stable => stable_mac(&seed, vf).map(VfSettingsChange::Mac).into_iter().collect(),
        MacPolicy::Keep => Vec::new(),
    }
}

/// The PF's own hardware address. InfiniBand has no MAC address; there the slot stands for it.
fn seed(pf: &Pf) -> Option<String> {
    let link = pf.link.as_ref()?;
    Some(link.mac.map_or_else(|| pf.pci.to_string(), |mac| mac.to_string()))
}

/// What of a VF that is there is other than it should be. A setting that the driver does not show cannot be compared.
pub(crate) fn needed(settings: &PfSettings, pf: &Pf, vf: &Vf) -> Need {
    let Some(shown) = &vf.settings else { return Need { rebind: vf.lacks_guid(), ..Need::default() } };
    let differs = |change: &VfSettingsChange| match change {
        VfSettingsChange::Trust(_) => shown.trust.is_some(),
        VfSettingsChange::SpoofCheck(_) => shown.spoofchk.is_some(),
        VfSettingsChange::LinkState(_) => shown.link_state.is_some(),
        VfSettingsChange::NodeGuid(_) => shown.node_guid.is_some(),
        VfSettingsChange::PortGuid(_) => shown.port_guid.is_some(),
        _ => true,
    };
    let wanted = all(settings, pf, vf.index).into_iter();
    let changes: Vec<_> = wanted.filter(|change| differs(change) && !change.is_in_place(shown)).collect();
    let renamed = |change: &VfSettingsChange| {
        matches!(
            change,
            VfSettingsChange::Mac(_) | VfSettingsChange::NodeGuid(_) | VfSettingsChange::PortGuid(_)
        )
    };
    Need { rebind: vf.lacks_guid() || changes.iter().any(renamed), changes }
}
