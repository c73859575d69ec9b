//! A VF's GUIDs, as a change that can be reverted.
//!
//! They are set through the PF, and a VF takes them when its driver is bound. So the driver is bound again, which creates
//! another RDMA device and another IPoIB link.

use std::{fmt, time::Duration};

use exclusive_rdma::DriverRebind;
use identifiers::{Attachment, PciAddress, VfIndex};
use plugin_runtime::{Error, Node, retry_while_busy};
use rdma::Guid;
use rtnl::{Link, VfSetting};
use serde::{Deserialize, Serialize};
use sysfs::Function;

use crate::{HostVf, VfParent, error::VfError, host_link, is_claimed_by_other, wait_for_host_link};

/// How long a driver may take to create a VF's link.
const LINK_TIMEOUT: Duration = Duration::from_secs(20);

/// The change that a VF got other GUIDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VfGuids {
    owner: Attachment,
    vf: PciAddress,
    pf: PciAddress,
    index: VfIndex,
    /// The new GUID of device and port; unknown for an attachment of the Go plugin.
    guid: Option<u64>,
    node_before: u64,
    port_before: u64,
    /// The driver to bind again; `None` for a VF in user space.
    driver: Option<String>,
}

impl VfGuids {
    /// Returns the change that an ADD will make; `None` if the VF has the GUID.
    ///
    /// # Errors
    /// If sysfs cannot be read.
    pub fn of(owner: &Attachment, node: &Node, vf: &HostVf, guid: Guid) -> Result<Option<Self>, Error> {
        let (is_node, is_port) = (vf.settings.node_guid.map(Guid), effective_port_guid(vf));
        if is_node == Some(guid) && is_port == guid {
            return Ok(None);
        }
        let driver = if vf.link.is_some() { node.sysfs.driver(&Function::Pci(vf.pci))? } else { None };
        // A PF's driver may know only the GUIDs that were set since it was loaded.
        let node_before = is_node.filter(|guid| guid.is_assigned()).unwrap_or(is_port);
        Ok(Some(Self {
            owner: owner.clone(),
            vf: vf.pci,
            pf: vf.pf.pci,
            index: vf.index,
            guid: Some(guid.0),
            node_before: restorable(node_before),
            port_before: restorable(is_port),
            driver,
        }))
    }

    /// Returns the change that the Go plugin made.
    pub fn from_go_state(
        owner: &Attachment,
        vf: PciAddress,
        pf: PciAddress,
        index: VfIndex,
        before: Guid,
        driver: Option<String>,
    ) -> Self {
        let before = restorable(before);
        let owner = owner.clone();
        Self { owner, vf, pf, index, guid: None, node_before: before, port_before: before, driver }
    }

    /// Sets the GUIDs, and binds the VF's driver again.
    ///
    /// # Errors
    /// If the PF refuses one, or the driver cannot be bound.
    pub fn apply(&self, node: &Node, pf: &VfParent) -> Result<(), Error> {
        let Some(guid) = self.guid else { return Ok(()) };
        let guid = [VfSetting::NodeGuid(guid), VfSetting::PortGuid(guid)];
        let Some(driver) = &self.driver else { return self.set(node, pf, guid) };
        // Before the PF is changed, because this may be refused.
        let rebind = DriverRebind::prepare(node, self.vf)?;
        self.set(node, pf, guid)?;
        rebind.run_for_pod(driver)
    }

    fn set(&self, node: &Node, pf: &VfParent, settings: [VfSetting; 2]) -> Result<(), Error> {
        let links = node.links()?;
        for setting in settings {
            let set = retry_while_busy(|| links.set_vf(pf.link.index, self.index, setting));
            let (which, guid) = match setting {
                VfSetting::PortGuid(guid) => ("port", Guid(guid)),
                VfSetting::NodeGuid(guid) => ("node", Guid(guid)),
                _ => continue,
            };
            let (pf, vf) = (pf.link.name.clone(), self.vf);
            set.map_err(|e| VfError::GuidRefused { which, guid, pf, vf, source: e.into() })?;
        }
        Ok(())
    }

    /// Restores the former GUIDs, unless the VF belongs to another attachment by now.
    ///
    /// # Errors
    /// If the PF refuses one, or the driver cannot be bound.
    pub(crate) fn revert(&self, node: &Node) -> Result<(), Error> {
        let function = Function::Pci(self.vf);
        // If the VF is gone, so are its GUIDs.
        if !node.sysfs.has(&function)? || is_claimed_by_other(node, &Function::Pci(self.vf), &self.owner)? {
            return Ok(());
        }
        let (pf, now) = VfParent::find(node, self.pf, self.index)?;
        let before = [VfSetting::NodeGuid(self.node_before), VfSetting::PortGuid(self.port_before)];
        if before.iter().any(|setting| !setting.is_in_place(&now)) {
            self.set(node, &pf, before)?;
        }
        let Some(driver) = &self.driver else { return Ok(()) };
        let is_now = node.sysfs.driver(&function)?;
        // Another driver is bound by now, such as vfio-pci.
        if is_now.as_ref().is_some_and(|is| is != driver) {
            return Ok(());
        }
        // A driver reads the GUIDs only when it is bound, so the link has those that are in use. A link that is still in the
        // pod is created again on the host.
        let link = host_link(node, &Function::Pci(self.vf))?;
        if is_now.is_some() && link.as_ref().is_some_and(|link| self.has_former_guid(link)) {
            return Ok(());
        }
        DriverRebind::of_returned(node, self.vf)?.run(driver)?;
        wait_for_link(node, self.vf, "its driver was bound again", driver).map(drop)
    }

    fn has_former_guid(&self, link: &Link) -> bool {
        let (is, before) = (port_guid_of(link), Guid(self.port_before));
        is == Some(before) || is.is_some_and(|is| !is.is_assigned() && !before.is_assigned())
    }

    /// Checks that the VF has the GUIDs of ADD.
    ///
    /// # Errors
    /// The first difference.
    pub(crate) fn verify(&self, node: &Node) -> Result<(), Error> {
        let Some(was) = self.guid.map(Guid) else { return Ok(()) };
        let (_, now) = VfParent::find(node, self.pf, self.index)?;
        for (which, is) in [("node", now.node_guid), ("port", now.port_guid)] {
            if let Some(is) = is.map(Guid).filter(|is| *is != was) {
                return Err(VfError::OtherGuid { vf: self.vf, which, is, was }.into());
            }
        }
        Ok(())
    }
}

/// Waits for the link of a VF that is on the host.
///
/// # Errors
/// If there is none in time.
pub fn wait_for_link(node: &Node, vf: PciAddress, after: &'static str, driver: &str) -> Result<Link, Error> {
    wait_for_host_link(node, &Function::Pci(vf), LINK_TIMEOUT)?.ok_or_else(|| {
        let (driver, waited) = (driver.to_owned(), plugin_runtime::seconds(LINK_TIMEOUT));
        VfError::NoLinkAfter { vf, after, driver, waited }.into()
    })
}

/// Returns the GUID that a VF's port uses: that of its link. For a VF in user space, it is the one that the PF reports.
pub fn effective_port_guid(vf: &HostVf) -> Guid {
    let of_link = vf.link.as_ref().and_then(port_guid_of);
    of_link.or(vf.settings.port_guid.map(Guid)).unwrap_or(Guid::UNASSIGNED)
}

/// Returns the port GUID in an IPoIB link's address: its last eight bytes (RFC 4391).
fn port_guid_of(link: &Link) -> Option<Guid> {
    let guid = link.address.bytes().get(12..20)?;
    guid.try_into().ok().map(u64::from_be_bytes).map(Guid)
}

/// Firmware does not accept zero; all bits set means that there is none either.
fn restorable(guid: Guid) -> u64 {
    if guid.is_zero() { Guid::UNASSIGNED.0 } else { guid.0 }
}

impl fmt::Display for VfGuids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GUIDs of VF {}", self.vf)
    }
}
