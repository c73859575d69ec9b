//! The settings that VFs should have, according to the node file.

use identifiers::VfIndex;
use inventory::{Pf, Vf};
use rtnl::VfSetting;

use crate::{GuidPolicy, LinkState, MacPolicy, NodeFile, PfSpec, stable_guid, stable_mac};

/// The changes that an existing VF needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VfUpdate {
    /// The settings to change.
    pub(crate) changes: Vec<VfSetting>,
    /// Whether its driver must be bound again to read them.
    pub(crate) rebind: bool,
}

/// The wanted settings of a PF's VFs.
pub(crate) struct VfPolicy<'a> {
    settings: &'a PfSpec,
    pf: &'a Pf,
    /// The GUIDs of the GUID file, by VF index.
    guids: Vec<u64>,
}

impl<'a> VfPolicy<'a> {
    /// Returns the policy of a node file for a PF.
    ///
    /// # Errors
    /// If the GUID file has too few GUIDs for the PF.
    pub(crate) fn of(file: &NodeFile, settings: &'a PfSpec, pf: &'a Pf) -> Result<Self, String> {
        let given = pf.is_infiniband() && settings.vf.guid == GuidPolicy::File;
        let guids = if given { file.guids.of(pf, settings.vfs)? } else { Vec::new() };
        Ok(Self { settings, pf, guids })
    }

    /// Returns all settings of a new VF. Trust comes first, since other settings may need it.
    pub(crate) fn settings_for_new_vf(&self, vf: VfIndex) -> Vec<VfSetting> {
        let own = &self.settings.vf;
        let mut changes = Vec::new();
        changes.extend(own.trust.map(VfSetting::Trust));
        changes.extend(own.spoof_check.map(VfSetting::SpoofCheck));
        changes.extend(self.identity(vf));
        // Ports of InfiniBand VFs are down unless their link state is set to auto.
        let link_state = own.link_state.or(self.pf.is_infiniband().then_some(LinkState::Auto));
        changes.extend(link_state.map(|state| VfSetting::LinkState(state.number())));
        changes
    }

    /// The addresses of a VF: GUIDs on InfiniBand, a MAC address on Ethernet.
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

    /// The PF's own hardware address: a MAC address, or the GUID of its RDMA device. The PCI address is not used, since it
    /// is often the same on every node.
    fn seed(&self) -> Option<String> {
        // In a bond, all members have the bond's MAC address, so the permanent one is preferred.
        let mac = self.pf.link.as_ref().and_then(|link| link.permanent_mac.or(link.mac));
        mac.map(|mac| mac.to_string()).or_else(|| Some(format!("{:016x}", self.pf.guid?)))
    }

    /// Whether the VF has an assigned address. For InfiniBand the kernel reports the PF's own MAC address as the VF's.
    fn has_identity(&self, vf: &Vf) -> bool {
        match self.pf.is_infiniband() {
            true => vf.settings.as_ref().and_then(|shown| shown.node_guid).is_some_and(|guid| guid != 0),
            false => vf.admin_mac().is_some(),
        }
    }

    /// Returns the changes that an existing VF needs. A setting that the driver does not report cannot be compared.
    pub(crate) fn update_for(&self, vf: &Vf) -> VfUpdate {
        let wanted = self.settings_for_new_vf(vf.index);
        // Binding the driver again gives a GUID only if the PF assigns an address to the VF.
        let lacks_guid = vf.lacks_guid() && (!self.identity(vf.index).is_empty() || self.has_identity(vf));
        // A user-space driver reads the address when it opens the VF, so it need not be bound again.
        let is_read = vf.link.is_some() || vf.rdma.is_some();
        let Some(shown) = &vf.settings else {
            // A killed run may have created the VF, and the driver does not report its settings.
            let changes = if vf.driver.is_none() && self.pf.link.is_some() { wanted } else { Vec::new() };
            return VfUpdate { rebind: false, changes };
        };
        let is_shown = |change: &VfSetting| match change {
            // Without a driver, a killed run may have left it unset: set it even if the PF does not report it.
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
