//! A VF's administrative MAC address, restored last.
//!
//! A PF shows one address for a VF. With some drivers that is only the administrative one (zero: the VF may choose its
//! own); with others it may also be the one that the VF reported. A VF's former address is restored in three steps: the
//! administrative one is cleared, the link's own address is set, and then, if the PF still shows another address than
//! before, the administrative one is set. The last step is this change, which is recorded first and so reverted last.

use std::fmt;

use identifiers::{Attachment, MacAddr, PciAddress, VfIndex};
use plugin_runtime::{Error, Node, retry_while_busy};
use rtnl::VfSetting;
use serde::{Deserialize, Serialize};
use sysfs::Function;

use crate::{HostVf, VfParent, is_claimed_by_other};

/// The address that a PF showed for a VF before its settings were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAdminMac {
    owner: Attachment,
    vf: PciAddress,
    pf: PciAddress,
    index: VfIndex,
    mac: MacAddr,
}

impl SavedAdminMac {
    /// Returns the address that the PF shows now, if any.
    pub fn of(owner: &Attachment, vf: &HostVf) -> Option<Self> {
        let mac = vf.settings.as_ref()?.mac?;
        Some(Self { owner: owner.clone(), vf: vf.pci, pf: vf.pf.pci, index: vf.index, mac })
    }

    /// Returns the address that the Go plugin saved.
    pub fn from_go_state(
        owner: &Attachment,
        vf: PciAddress,
        pf: PciAddress,
        index: VfIndex,
        mac: MacAddr,
    ) -> Self {
        Self { owner: owner.clone(), vf, pf, index, mac }
    }

    /// Sets the address on the PF, if the PF shows another one.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if !node.sysfs.has(&Function::Pci(self.vf))?
            || is_claimed_by_other(node, &Function::Pci(self.vf), &self.owner)?
        {
            return Ok(());
        }
        let (pf, now) = VfParent::find(node, self.pf, self.index)?;
        if now.mac == Some(self.mac) || self.mac.is_zero() {
            return Ok(());
        }
        let (links, mac) = (node.links()?, VfSetting::Mac(self.mac));
        // The link's own address was just set, for which some drivers reset the VF.
        Ok(retry_while_busy(|| links.set_vf(pf.link.index, self.index, mac))?)
    }
}

impl fmt::Display for SavedAdminMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "administrative MAC of VF {}", self.vf)
    }
}
