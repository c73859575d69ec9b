//! A VF's settings on its PF, as a change that can be reverted.

use std::fmt;

use identifiers::{Attachment, PciAddress, VfIndex};
use nix::errno::Errno;
use plugin_runtime::{Error, Node, retry_while_busy};
use rtnl::{VfSetting, VfVlanTag};
use serde::{Deserialize, Serialize};
use sysfs::Function;

use crate::{
    error::VfError,
    host_link::is_claimed_by_other,
    host_vf::{HostVf, VfParent},
};

/// The change that a VF was configured through its PF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VfConfigured {
    owner: Attachment,
    vf: PciAddress,
    pf: PciAddress,
    index: VfIndex,
    /// The new values, in the order in which they are set.
    set: Vec<VfSetting>,
    /// The former values.
    restore: Vec<VfSetting>,
}

impl VfConfigured {
    /// Returns the changes that an ADD will make: of pairs of a new and a former value, those that differ from the VF's
    /// current settings.
    pub fn of(owner: &Attachment, vf: &HostVf, mut wanted: Vec<(VfSetting, VfSetting)>) -> Self {
        let is_in_place = |change: VfSetting| vf.settings.as_ref().is_some_and(|now| change.is_in_place(now));
        wanted.retain(|(change, _)| !is_in_place(*change));
        let (set, restore) = wanted.into_iter().unzip();
        Self { owner: owner.clone(), vf: vf.pci, pf: vf.pf.pci, index: vf.index, set, restore }
    }

    /// Returns the changes that the Go plugin made, by the former values.
    pub fn from_go_state(
        owner: &Attachment,
        vf: PciAddress,
        pf: PciAddress,
        index: VfIndex,
        restore: Vec<VfSetting>,
    ) -> Self {
        Self { owner: owner.clone(), vf, pf, index, set: Vec::new(), restore }
    }

    /// Sets the new values.
    ///
    /// # Errors
    /// The first setting that the driver refused, by its key.
    pub fn apply(&self, node: &Node, pf: &VfParent) -> Result<(), Error> {
        let remaining = self.set_in_one_message(node, pf, &self.set)?;
        remaining.iter().try_for_each(|change| self.set_one(node, pf, *change))
    }

    /// Sets values by one message, and returns those that must be set one by one: a netlink error does not contain the
    /// setting, and a driver that resets the VF for the first setting refuses the next.
    fn set_in_one_message(
        &self,
        node: &Node,
        pf: &VfParent,
        changes: &[VfSetting],
    ) -> Result<Vec<VfSetting>, Error> {
        if changes.len() < 2 {
            return Ok(changes.to_vec());
        }
        let links = node.links()?;
        if links.set_vf_in_one_message(pf.link.index, self.index, changes).is_ok() {
            return Ok(Vec::new());
        }
        let now = links.vf_settings(pf.link.index, self.index)?;
        Ok(changes.iter().filter(|change| !change.is_in_place(&now)).copied().collect())
    }

    fn set_one(&self, node: &Node, pf: &VfParent, change: VfSetting) -> Result<(), Error> {
        let Err(error) = self.set_with_retry(node, pf, change) else { return Ok(()) };
        let unsupported = matches!(
            &error,
            Error::Link(rtnl::Error::Netlink(e)) if matches!(e.errno(), Some(Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT))
        );
        if !unsupported {
            return Err(error);
        }
        let driver = node.sysfs.driver(&Function::Pci(pf.pci))?.unwrap_or_else(|| "no driver".into());
        let (key, pf) = (key(change), pf.link.name.clone());
        Err(VfError::UnsupportedSetting { key, driver, pf, vf: self.vf, source: error }.into())
    }

    fn set_with_retry(&self, node: &Node, pf: &VfParent, change: VfSetting) -> Result<(), Error> {
        let links = node.links()?;
        Ok(retry_while_busy(|| links.set_vf(pf.link.index, self.index, change))?)
    }

    /// Restores the former values, unless the VF belongs to another attachment by now.
    ///
    /// # Errors
    /// The first value that the driver refused.
    pub fn revert(&self, node: &Node) -> Result<(), Error> {
        if self.restore.is_empty() || is_claimed_by_other(node, &Function::Pci(self.vf), &self.owner)? {
            return Ok(());
        }
        // If the VF is gone, so are its settings.
        if !node.sysfs.has(&Function::Pci(self.vf))? {
            return Ok(());
        }
        let (pf, now) = VfParent::find(node, self.pf, self.index)?;
        let changed: Vec<_> = self.restore.iter().filter(|it| !it.is_in_place(&now)).copied().collect();
        let mut result = Ok(());
        for change in self.set_in_one_message(node, &pf, &changed)? {
            // Continue after a failure, so that the other settings are restored.
            result = result.and(self.restore_one(node, &pf, change));
        }
        result
    }

    /// Restores one value. Some drivers (be2net, qede) refuse a zero MAC, which means "the VF may choose"; then
    /// the sriov plugin sets the former one last.
    fn restore_one(&self, node: &Node, pf: &VfParent, change: VfSetting) -> Result<(), Error> {
        let restored = self.set_one(node, pf, change);
        match (&restored, change) {
            (Err(Error::Link(rtnl::Error::Netlink(e))), VfSetting::Mac(mac))
                if mac.is_zero() && e.errno() == Some(Errno::EINVAL) =>
            {
                Ok(())
            }
            _ => restored,
        }
    }

    /// Checks that the VF still has the settings of ADD.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, node: &Node) -> Result<(), Error> {
        let (_, now) = VfParent::find(node, self.pf, self.index)?;
        match self.set.iter().find(|change| !change.is_in_place(&now)) {
            None => Ok(()),
            Some(change) => {
                let (set, now) = (format!("{change:?}"), format!("{now:?}"));
                Err(VfError::OtherSetting { vf: self.vf, key: key(*change), set, now }.into())
            }
        }
    }
}

/// Returns the configuration key of a setting.
fn key(change: VfSetting) -> &'static str {
    match change {
        VfSetting::Vlan(VfVlanTag { proto: identifiers::VlanProto::Dot1Ad, .. }) => "vlanProto 802.1ad",
        VfSetting::Vlan(_) => "vlan",
        VfSetting::Mac(_) => "mac",
        VfSetting::Rate(..) => "min_tx_rate, max_tx_rate",
        VfSetting::SpoofCheck(_) => "spoofchk",
        VfSetting::Trust(_) => "trust",
        VfSetting::LinkState(_) => "link_state",
        VfSetting::NodeGuid(_) | VfSetting::PortGuid(_) => "guid",
    }
}

impl fmt::Display for VfConfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings of VF {}", self.vf)
    }
}

#[cfg(test)]
mod tests {
    use rtnl::VfSettings;

    use super::*;
    use crate::host_link::tests::link;

    #[test]
    fn only_settings_that_differ_are_changed_and_restored() {
        let pf = VfParent { pci: "0000:af:00.0".parse().unwrap(), link: link(rtnl::ETHERNET) };
        let settings = Some(VfSettings { trust: Some(false), spoofchk: Some(true), ..VfSettings::default() });
        let vf = HostVf { pci: "0000:af:00.2".parse().unwrap(), pf, index: VfIndex(1), link: None, settings };
        let owner = Attachment { container_id: "a".parse().unwrap(), ifname: "net1".parse().unwrap() };
        let wanted = vec![
            (VfSetting::Trust(true), VfSetting::Trust(false)),
            (VfSetting::SpoofCheck(true), VfSetting::SpoofCheck(true)),
            (VfSetting::LinkState(1), VfSetting::LinkState(0)),
        ];
        let change = VfConfigured::of(&owner, &vf, wanted);
        assert_eq!(change.set, [VfSetting::Trust(true), VfSetting::LinkState(1)]);
        assert_eq!(change.restore, [VfSetting::Trust(false), VfSetting::LinkState(0)]);
        assert_eq!((change.vf, change.pf, change.index), (vf.pci, vf.pf.pci, vf.index));
    }
}
