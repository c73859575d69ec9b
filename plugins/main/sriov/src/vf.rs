//! A VF as the node has it.

use std::time::{Duration, Instant};

use addr::{Attachment, PciAddress};
use cni::{Code, Error as CniError};
use plugin::{
    Error, Node,
    claim::{self, Part},
};
use rtnl::{Link, VfIndex, VfSettings};
use sysfs::Function;

/// How long a VF may be on its way home from a namespace that died. The kernel does it in the background.
const RETURN: Duration = Duration::from_secs(20);

/// Drivers that give a VF to user space: it has no link.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// A VF at home on the node.
pub(crate) struct Vf {
    pub(crate) pci: PciAddress,
    pub(crate) pf: Pf,
    pub(crate) index: VfIndex,
    /// Its link; `None` if a user-space driver has it.
    pub(crate) link: Option<Link>,
    /// What its PF says about it.
    pub(crate) settings: VfSettings,
}

/// A VF's PF.
pub(crate) struct Pf {
    pub(crate) pci: PciAddress,
    pub(crate) link: Link,
}

impl Pf {
    /// The PF of a PCI address, with its link.
    ///
    /// # Errors
    /// If it has none on the node.
    pub(crate) fn find(node: &Node, pci: PciAddress) -> Result<Self, Error> {
        let name = node.sysfs.pf_link(pci)?;
        Ok(Self { pci, link: node.links()?.link(&name)? })
    }
}

impl Vf {
    /// Looks whether a PCI address is a VF's, and returns its PF's.
    ///
    /// # Errors
    /// That there is no such function, or that it is no VF.
    pub(crate) fn exists(node: &Node, pci: PciAddress) -> Result<PciAddress, Error> {
        if !node.sysfs.has(&Function::Pci(pci))? {
            let msg =
                format!("deviceID: failed to get VF information: there is no PCI device {pci} on this node");
            return Err(CniError::config(msg)
                .with_details("was it a VF of a PF whose sriov_numvfs has changed?")
                .into());
        }
        node.sysfs.pf_of(pci)?.ok_or_else(|| {
            let msg = format!(
                "deviceID: failed to get VF information: PCI device {pci} is no VF (it has no physfn)"
            );
            CniError::config(msg).into()
        })
    }

    /// Looks whether the node has any VF.
    ///
    /// # Errors
    /// That it has none.
    pub(crate) fn any_exists(node: &Node) -> Result<(), Error> {
        if node.sysfs.any_vf()?.is_some() {
            return Ok(());
        }
        let details = "make some, with the SR-IOV operator or in /sys/class/net/<PF>/device/sriov_numvfs";
        Err(CniError::config("no VF exists on this node").with_details(details).into())
    }

    /// Finds a VF that is at home, or about to be.
    ///
    /// # Errors
    /// That it is no VF, has no link, or is somewhere else.
    pub(crate) fn find(node: &Node, pci: PciAddress) -> Result<Self, Error> {
        let pf = Pf::find(node, Self::exists(node, pci)?)?;
        let index = node.sysfs.vf_index(pci)?;
        let link = Self::link(node, pci)?;
        if let Some(link) = &link {
            is_free(node, pci, link)?;
        }
        let settings = node.links()?.vf_settings(pf.link.index, index)?;
        Ok(Self { pci, pf, index, link, settings })
    }

    fn link(node: &Node, pci: PciAddress) -> Result<Option<Link>, Error> {
        if let Some(link) = link_at_home(node, pci)? {
            return Ok(Some(link));
        }
        let driver = node.sysfs.driver(&Function::Pci(pci))?;
        match driver.as_deref() {
            Some(driver) if USER_SPACE_DRIVERS.contains(&driver) => Ok(None),
            Some(driver) => wait_at_home(node, pci, RETURN)?.map(Some).ok_or_else(|| {
                let msg = format!(
                    "the VF {pci} does not have a interface name or a dpdk driver: it is bound to {driver}"
                );
                let details = "its network device is in another network namespace, or its driver failed; \
                               `silkrail pods` shows who has it";
                CniError::new(Code::TRY_AGAIN, msg).with_details(details).into()
            }),
            None => {
                let msg = format!(
                    "the VF {pci} does not have a interface name or a dpdk driver: no driver is bound to it"
                );
                let details = format!(
                    "bind one: `echo {pci} > /sys/bus/pci/drivers_probe`; then the device can be attached"
                );
                Err(CniError::new(Code::TRY_AGAIN, msg).with_details(details).into())
            }
        }
    }
}

/// Refuses a VF that the node itself uses: moving it would take its addresses, or its place in a bond.
fn is_free(node: &Node, pci: PciAddress, link: &Link) -> Result<(), Error> {
    let links = node.links()?;
    let used = match link.controller.map(|index| links.link_by_index(index)).transpose()? {
        Some(controller) => Some(format!("belongs to {}", controller.name)),
        None => links.addresses(link.index)?.first().map(|address| format!("has the address {address}")),
    };
    let Some(used) = used else { return Ok(()) };
    let msg = format!("VF {pci} is in use by the node: its link {} {used}", link.name);
    Err(CniError::new(Code::IN_USE, msg).with_details("give it to pods or to the node, not to both").into())
}

/// Whether another attachment has a VF: then nothing of it may be touched.
pub(crate) fn is_anothers(node: &Node, vf: PciAddress, owner: &Attachment) -> Result<bool, Error> {
    claim::is_anothers(node, Part::Vf, &Function::Pci(vf), owner)
}

/// Whether a VF is there and bound to a driver that gives it a link.
pub(crate) fn may_have_link(node: &Node, vf: PciAddress) -> Result<bool, Error> {
    let function = Function::Pci(vf);
    if !node.sysfs.has(&function)? {
        return Ok(false);
    }
    let driver = node.sysfs.driver(&function)?;
    Ok(driver.is_some_and(|driver| !USER_SPACE_DRIVERS.contains(&driver.as_str())))
}

/// The link of a VF, if it is in the node's namespace.
pub(crate) fn link_at_home(node: &Node, pci: PciAddress) -> Result<Option<Link>, Error> {
    let function = Function::Pci(pci);
    if !node.sysfs.has(&function)? {
        return Ok(None);
    }
    let names = node.sysfs.links(&function)?;
    let Some(name) = names.first() else { return Ok(None) };
    Ok(node.links()?.find_link(name)?)
}

/// Waits for a VF that is on its way home; `None` if it does not come within `patience`.
pub(crate) fn wait_at_home(node: &Node, pci: PciAddress, patience: Duration) -> Result<Option<Link>, Error> {
    let wait = |source| Error::Wait { what: "a VF to come home", source };
    let events = rtnl::events(false).map_err(wait)?;
    let deadline = Instant::now() + patience;
    loop {
        let link = link_at_home(node, pci)?;
        if link.is_some() || Instant::now() >= deadline || !node.sysfs.has(&Function::Pci(pci))? {
            return Ok(link);
        }
        // sysfs has the name a moment after the event: look again soon.
        events.wait(deadline, Duration::from_millis(20)).map_err(wait)?;
    }
}
