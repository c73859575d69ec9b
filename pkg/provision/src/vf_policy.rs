//! What the settings of a VF should be.

use identifiers::VfIndex;
use inventory::{Pf, Vf};
use rtnl::VfSetting;

use crate::{GuidPolicy, LinkState, MacPolicy, NodeFile, PfSpec, stable_guid, stable_mac};

/// What is to be done with a VF that is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VfUpdate {
    /// The settings to change.
    pub(crate) changes: Vec<VfSetting>,
    /// Whether its driver must read them anew.
    pub(crate) rebind: bool,
}

/// What the settings of a PF's VFs should be.
pub(crate) struct VfPolicy<'a> {
    settings: &'a PfSpec,
    pf: &'a Pf,
    /// GUIDs that somebody gave out, by the numbers of the VFs.
    guids: Vec<u64>,
}

impl<'a> VfPolicy<'a> {
    /// The policy of a file for a PF.
    ///
    /// # Errors
    /// That the GUID file has not enough for it.
    pub(crate) fn of(file: &NodeFile, settings: &'a PfSpec, pf: &'a Pf) -> Result<Self, String> {
        let given = pf.is_infiniband() && settings.vf.guid == GuidPolicy::File;
        let guids = if given { file.guids.of(pf, settings.vfs)? } else { Vec::new() };
        Ok(Self { settings, pf, guids })
    }

    /// Every setting of a VF that is new. Trust comes before what needs it.
    pub(crate) fn settings_for_new_vf(&self, vf: VfIndex) -> Vec<VfSetting> {
        let own = &self.settings.vf;
        let mut changes = Vec::new();
        changes.extend(own.trust.map(VfSetting::Trust));
        changes.extend(own.spoof_check.map(VfSetting::SpoofCheck));
        changes.extend(self.identity(vf));
        // Ports of InfiniBand VFs are down until somebody says that they follow the PF's.
        let link_state = own.link_state.or(self.pf.is_infiniband().then_some(LinkState::Auto));
        changes.extend(link_state.map(|state| VfSetting::LinkState(state.number())));
        changes
    }

    /// By what its driver knows the VF: GUIDs on InfiniBand, a MAC address elsewhere.
    fn identity(&self, vf: VfIndex) -> Vec<VfSetting> {
        if self.pf.is_infiniband() {
            let guids = self.guid(vf).map(|guid| [VfSetting::NodeGuid(guid), VfSetting::PortGuid(guid)]);
            return guids.into_iter().flatten().collect();
        }
        let mac = match self.settings.vf.mac {
            MacPolicy::Stable => self.seed().and_then(|seed| stable_mac(&seed, vf)),
            MacPolicy::Keep => None,
        };
        mac.map(VfSetting::Mac).into_iter().collect()
    }

    fn guid(&self, vf: VfIndex) -> Option<u64> {
        match self.settings.vf.guid {
            GuidPolicy::Stable => Some(stable_guid(&self.seed()?, vf)),
            GuidPolicy::File => self.guids.get(vf.0 as usize).copied(),
            GuidPolicy::Keep => None,
        }
    }

    /// The PF's own hardware address: a MAC address, or the GUID of its RDMA device. Slots are the same in every node, so
    /// one does not stand for an address.
    fn seed(&self) -> Option<String> {
        // As long as the PF belongs to a bond, its MAC address is the bond's, and so is its neighbour's.
        let mac = self.pf.link.as_ref().and_then(|link| link.permanent_mac.or(link.mac));
        mac.map(|mac| mac.to_string()).or_else(|| Some(format!("{:016x}", self.pf.guid?)))
    }

    /// Whether somebody has given the VF an address. For InfiniBand the kernel shows the PF's own MAC address there.
    fn has_identity(&self, vf: &Vf) -> bool {
        match self.pf.is_infiniband() {
            true => vf.settings.as_ref().and_then(|shown| shown.node_guid).is_some_and(|guid| guid != 0),
            false => vf.admin_mac().is_some(),
        }
    }

    /// What of a VF that is there is other than it should be. A setting that the driver does not show cannot be compared.
    pub(crate) fn update_for(&self, vf: &Vf) -> VfUpdate {
        let wanted = self.settings_for_new_vf(vf.index);
        // A driver that takes a VF anew finds a GUID only if its PF gives it an address.
        let lacks_guid = vf.lacks_guid() && (!self.identity(vf.index).is_empty() || self.has_identity(vf));
        // In user space nothing reads an address before it opens the VF.
        let is_read = vf.link.is_some() || vf.rdma.is_some();
        let Some(shown) = &vf.settings else {
            // A run that was killed may have made it, and nobody can see what is set.
            let changes = if vf.driver.is_none() && self.pf.link.is_some() { wanted } else { Vec::new() };
            return VfUpdate { rebind: false, changes };
        };
        let is_shown = |change: &VfSetting| match change {
            // Nor can that be seen of a setting that the driver hides.
            _ if vf.driver.is_none() => true,
            VfSetting::Trust(_) => shown.trust.is_some(),
            VfSetting::SpoofCheck(_) => shown.spoofchk.is_some(),
            VfSetting::LinkState(_) => shown.link_state.is_some(),
            VfSetting::NodeGuid(_) => shown.node_guid.is_some(),
            VfSetting::PortGuid(_) => shown.port_guid.is_some(),
            _ => true,
        };
        let changes: Vec<_> =
            wanted.into_iter().filter(|change| is_shown(change) && !change.is_in_place(shown)).collect();
        let renamed = |change: &VfSetting| {
            use VfSetting::{Mac, NodeGuid, PortGuid};
            matches!(change, Mac(_) | NodeGuid(_) | PortGuid(_))
        };
        VfUpdate { rebind: is_read && (lacks_guid || changes.iter().any(renamed)), changes }
    }
}
