//! A VF's GUIDs, as a change that can be reverted.
//!
//! They are set through the PF, and a VF takes them when its driver is bound. So the driver is bound again, which creates
//! another RDMA device and another IPoIB link.

use std::{fmt, time::Duration};

use exclusive_rdma::DriverRebind;
use identifiers::{Attachment, PciAddress, VfIndex};
use plugin_runtime::{Error, Node, retry_while_busy};
use rdma::Guid;
use rtnl::{Link, VfSetting, VfSettings};
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
        let (is_node, is_port) = (known_guid(vf, |settings| settings.node_guid), effective_port_guid(vf));
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
    of_link.or(known_guid(vf, |settings| settings.port_guid)).unwrap_or(Guid::UNASSIGNED)
}

fn known_guid(vf: &HostVf, guid: impl FnOnce(&VfSettings) -> Option<u64>) -> Option<Guid> {
    vf.settings.as_ref().and_then(guid).map(Guid)
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

#[cfg(test)]
mod tests {
    use state::StateDir;

    use super::*;
    use crate::host_link::tests::link;

    const FORMER: u64 = 0x0200_0000_0000_0001;
    const WANTED: Guid = Guid(0x0200_0000_0000_0002);

    /// An IPoIB link with a GUID, as the driver creates it.
    fn with_guid(guid: u64) -> Link {
        let mut address = vec![0; 12];
        address.extend_from_slice(&guid.to_be_bytes());
        Link { address: identifiers::HardwareAddr::from_bytes(&address), ..link(rtnl::INFINIBAND) }
    }

    /// A VF in user space, whose GUIDs only its PF knows.
    fn vf(node_guid: Option<u64>, port_guid: Option<u64>) -> HostVf {
        let pf = VfParent { pci: "0000:af:00.0".parse().unwrap(), link: link(rtnl::INFINIBAND) };
        let settings = Some(VfSettings { node_guid, port_guid, ..VfSettings::default() });
        HostVf { pci: "0000:af:00.2".parse().unwrap(), pf, index: VfIndex(1), link: None, settings }
    }

    fn change(vf: &HostVf) -> Option<VfGuids> {
        let node = Node::new(StateDir::at("/nonexistent"), Vec::new(), None);
        let owner = Attachment { container_id: "a".parse().unwrap(), ifname: "net1".parse().unwrap() };
        VfGuids::of(&owner, &node, vf, WANTED).unwrap()
    }

    #[test]
    fn both_guids_must_be_the_wanted_one() {
        let (wanted, other) = (Some(WANTED.0), Some(FORMER));
        assert_eq!(change(&vf(wanted, wanted)), None);
        for (node, port) in [(wanted, other), (other, wanted), (other, other), (None, wanted), (wanted, None)]
        {
            assert!(change(&vf(node, port)).is_some(), "{node:?} {port:?}");
        }
    }

    #[test]
    fn the_former_guids_are_those_that_can_be_set_again() {
        let unassigned = Guid::UNASSIGNED.0;
        for (node, port, expected) in [
            (Some(FORMER), Some(FORMER + 7), (FORMER, FORMER + 7)),
            (None, Some(FORMER), (FORMER, FORMER)),
            (Some(0), Some(FORMER), (FORMER, FORMER)),
            (Some(0), Some(0), (unassigned, unassigned)),
            (None, None, (unassigned, unassigned)),
        ] {
            let change = change(&vf(node, port)).unwrap();
            assert_eq!((change.node_before, change.port_before), expected, "{node:?} {port:?}");
        }
    }

    #[test]
    fn the_guid_of_a_port_is_that_of_its_link() {
        let bound = HostVf { link: Some(with_guid(FORMER)), ..vf(Some(7), Some(7)) };
        assert_eq!(effective_port_guid(&bound), Guid(FORMER));
        assert_eq!(effective_port_guid(&vf(Some(6), Some(7))), Guid(7));
        assert_eq!(effective_port_guid(&vf(None, None)), Guid::UNASSIGNED);
        let ethernet = HostVf { link: Some(link(rtnl::ETHERNET)), ..vf(None, Some(7)) };
        assert_eq!(effective_port_guid(&ethernet), Guid(7));
    }

    #[test]
    fn a_driver_is_bound_again_unless_its_link_has_the_former_guid() {
        let of = |port| change(&vf(Some(FORMER), Some(port))).unwrap();
        let assigned = of(FORMER);
        assert!(assigned.has_former_guid(&with_guid(FORMER)));
        assert!(!assigned.has_former_guid(&with_guid(WANTED.0)) && !assigned.has_former_guid(&with_guid(0)));
        for none in [0, Guid::UNASSIGNED.0] {
            assert!(of(0).has_former_guid(&with_guid(none)));
        }
        assert!(!of(0).has_former_guid(&with_guid(FORMER)));
        assert!(!of(0).has_former_guid(&link(rtnl::ETHERNET)));
    }
}
