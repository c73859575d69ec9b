//! A VF's administrative MAC address, restored last.
//!
//! A PF shows one address for a VF. On some drivers that is the administrative one alone (zero: the VF may
//! choose); on others also what the VF reported. To give a VF its former address back, the administrative
//! one is first taken away, then the VF's link gets its own back, and then, if the PF still does not show
//! what it showed, the administrative one is set again: this change, noted first and so reverted after both.

use std::fmt;

use identifiers::{Attachment, MacAddr, PciAddress, VfIndex};
use plugin_runtime::{Error, Node, retry_while_busy};
use rtnl::{VfSetting};
use serde::{Deserialize, Serialize};
use sysfs::Function;

use crate::vf::{HostVf, VfParent, is_claimed_by_other};

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
    /// What the PF shows now.
    pub(crate) fn of(owner: &Attachment, vf: &HostVf) -> Option<Self> {
        let mac = vf.settings.mac?;
        Some(Self { owner: owner.clone(), vf: vf.pci, pf: vf.pf.pci, index: vf.index, mac })
    }

    /// What another program noted.
    pub(crate) fn from_go_state(
        owner: &Attachment,
        vf: PciAddress,
        pf: PciAddress,
        index: VfIndex,
        mac: MacAddr,
    ) -> Self {
        Self { owner: owner.clone(), vf, pf, index, mac }
    }

    /// Has the PF show it again.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        if !node.sysfs.has(&Function::Pci(self.vf))? || is_claimed_by_other(node, self.vf, &self.owner)? {
            return Ok(());
        }
        let (pf, now) = VfParent::find(node, self.pf, self.index)?;
        if now.mac == Some(self.mac) || self.mac.is_zero() {
            return Ok(());
        }
        let (links, mac) = (node.links()?, VfSetting::Mac(self.mac));
        // The link has just got its address back, and some drivers reset the VF for that.
        Ok(retry_while_busy(|| links.set_vf(pf.link.index, self.index, mac))?)
    }
}

impl fmt::Display for SavedAdminMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "administrative MAC of VF {}", self.vf)
    }
}
