//! A VF in the host namespace.

use std::time::Duration;

use cni::Error as CniError;
use identifiers::{Attachment, PciAddress, VfIndex};
use plugin_runtime::{Error, Node, is_attached_by_go_since};
use rtnl::{Handle, Link, LinkLayer, VfSettings};
use state::claim::{self, ClaimKind};
use sysfs::Function;

use crate::error::VfError;

/// How long a VF may take to return from a namespace that was deleted. The kernel returns it in the background.
const VF_RETURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Drivers that pass a VF to user space, so that it has no link.
const USER_SPACE_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// A VF whose link is in the host namespace, or which has none.
#[derive(Debug)]
pub struct HostVf {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Its PF.
    pub pf: VfParent,
    /// Its number on the PF.
    pub index: VfIndex,
    /// Its link; `None` if it is bound to a user-space driver.
    pub link: Option<Link>,
    /// Its settings on the PF (`IFLA_VFINFO_LIST`).
    pub settings: VfSettings,
}

/// The PF of a VF.
#[derive(Debug)]
pub struct VfParent {
    /// The PF's PCI address.
    pub pci: PciAddress,
    /// The PF's link.
    pub link: Link,
}

impl VfParent {
    /// Returns the PF of a PCI address, with the settings of one of its VFs.
    ///
    /// # Errors
    /// If it has no link on the host, or no such VF.
    pub fn find(node: &Node, pci: PciAddress, index: VfIndex) -> Result<(Self, VfSettings), Error> {
        let name = node.sysfs.pf_link(pci)?;
        let (link, vfs) = node.links()?.pf(&name)?;
        let settings = vfs.into_iter().find(|(number, _)| *number == index).map(|(_, settings)| settings);
        let settings = settings.ok_or_else(|| VfError::NoSettings { pf: name.to_string(), index })?;
        Ok((Self { pci, link }, settings))
    }
}

impl HostVf {
    /// Checks that a PCI address is a VF's, and returns its PF's.
    ///
    /// # Errors
    /// If there is no such function, or it is not a VF.
    pub fn exists(node: &Node, pci: PciAddress) -> Result<PciAddress, Error> {
        if !node.sysfs.has(&Function::Pci(pci))? {
            let msg =
                format!("deviceID: failed to get VF information: there is no PCI device {pci} on this node");
            return Err(CniError::config(msg)
                .with_details("was it a VF of a PF whose sriov_numvfs has changed?")
                .into());
        }
        node.sysfs.pf_of(pci)?.ok_or_else(|| {
            let msg = format!(
                "deviceID: failed to get VF information: PCI device {pci} is not a VF (it has no physfn)"
            );
            CniError::config(msg).into()
        })
    }

    /// Checks that the node has at least one VF.
    ///
    /// # Errors
    /// If it has none.
    pub fn any_exists(node: &Node) -> Result<(), Error> {
        if node.sysfs.any_vf()?.is_some() {
            return Ok(());
        }
        let details = "create VFs with the SR-IOV operator or in /sys/class/net/<PF>/device/sriov_numvfs";
        Err(CniError::config("no VF exists on this node").with_details(details).into())
    }

    /// Finds a VF that is on the host, or is returning to it.
    ///
    /// # Errors
    /// If it is not a VF, has no link, is in another namespace, is used by the node, or has another link layer.
    pub fn find(node: &Node, pci: PciAddress, layer: LinkLayer) -> Result<Self, Error> {
        let pf = Self::exists(node, pci)?;
        let index = node.sysfs.vf_index(pci)?;
        let link = Self::link(node, pci)?;
        if let Some(link) = &link {
            require_layer(pci, link, layer)?;
            require_unused(node, pci, link)?;
        }
        let (pf, settings) = VfParent::find(node, pf, index)?;
        Ok(Self { pci, pf, index, link, settings })
    }

    fn link(node: &Node, pci: PciAddress) -> Result<Option<Link>, Error> {
        if let Some(link) = host_link(node, pci)? {
            return Ok(Some(link));
        }
        let driver = node.sysfs.driver(&Function::Pci(pci))?;
        match driver.as_deref() {
            Some(driver) if USER_SPACE_DRIVERS.contains(&driver) => Ok(None),
            Some(driver) => wait_for_host_link(node, pci, VF_RETURN_TIMEOUT)?
                .map(Some)
                .ok_or_else(|| VfError::NoLink { vf: pci, driver: driver.to_owned() }.into()),
            None => Err(VfError::NoDriver(pci).into()),
        }
    }
}

/// Refuses a VF of the other link layer. The network device of an InfiniBand VF is IP over InfiniBand, which belongs to its
/// RDMA device: the kernel deletes it when that moves to another namespace, and creates another one in the host namespace.
fn require_layer(pci: PciAddress, link: &Link, layer: LinkLayer) -> Result<(), Error> {
    match (layer, link.layer()) {
        (LinkLayer::Ethernet, LinkLayer::InfiniBand) => {
            Err(VfError::IsInfiniBand { vf: pci, link: link.name.clone() }.into())
        }
        (LinkLayer::InfiniBand, LinkLayer::Ethernet) => {
            Err(VfError::IsEthernet { vf: pci, link: link.name.clone(), hardware: link.hardware }.into())
        }
        _ => Ok(()),
    }
}

/// Refuses a VF that the node itself uses: a move would remove its addresses, its place in a bond, or the parent of an IPoIB
/// link. Temporary addresses
/// of DHCP or a router do not count: NetworkManager, or the kernel, requests them on every link that is up.
fn require_unused(node: &Node, pci: PciAddress, link: &Link) -> Result<(), Error> {
    let links = node.links()?;
    let used = match link.controller.map(|index| links.link_by_index(index)).transpose()? {
        Some(controller) => Some(format!("belongs to {}", controller.name)),
        None => {
            let addresses = links.permanent_addresses(link.index)?;
            let address = addresses.first().map(|address| format!("has the address {address}"));
            address.map_or_else(|| child(links, link), |address| Ok(Some(address)))?
        }
    };
    let Some(used) = used else { return Ok(()) };
    Err(VfError::NodeUsesIt { vf: pci, link: link.name.clone(), used }.into())
}

/// Describes an IPoIB link on the VF's; `None` if there is none.
fn child(links: &Handle, link: &Link) -> Result<Option<String>, Error> {
    if link.layer() != LinkLayer::InfiniBand {
        return Ok(None);
    }
    let child = links.links()?.into_iter().find(|child| child.is_ipoib_child_of(link));
    Ok(child.map(|child| format!("is the parent of {}", child.name)))
}

/// Whether another attachment has a VF, which must then not be changed.
///
/// # Errors
/// If the claims cannot be read.
pub fn is_claimed_by_other(node: &Node, vf: PciAddress, owner: &Attachment) -> Result<bool, Error> {
    let (kind, function) = (ClaimKind::Vf, &Function::Pci(vf));
    if claim::is_claimed_by_other(&node.state, node.claims_lock().at(), kind, function, owner)? {
        return Ok(true);
    }
    Ok(is_attached_by_go_since(node, kind, function, owner)? && host_link(node, vf)?.is_none())
}

/// Whether a VF exists and is bound to a driver that creates a link.
///
/// # Errors
/// If sysfs cannot be read.
pub fn may_have_link(node: &Node, vf: PciAddress) -> Result<bool, Error> {
    let function = Function::Pci(vf);
    if !node.sysfs.has(&function)? {
        return Ok(false);
    }
    let driver = node.sysfs.driver(&function)?;
    Ok(driver.is_some_and(|driver| !USER_SPACE_DRIVERS.contains(&driver.as_str())))
}

/// Returns the link of a VF, if it is in the host namespace.
///
/// # Errors
/// If sysfs or the link cannot be read.
pub fn host_link(node: &Node, pci: PciAddress) -> Result<Option<Link>, Error> {
    let function = Function::Pci(pci);
    if !node.sysfs.has(&function)? {
        return Ok(None);
    }
    // Not by its name: a pod may have given it a name that is not valid UTF-8.
    let Some(index) = node.sysfs.link_index(&function)? else { return Ok(None) };
    Ok(node.links()?.find_link_by_index(index)?)
}

/// Waits for a VF that is returning to the host; `None` if it does not return within `timeout`.
///
/// # Errors
/// If sysfs or the link cannot be read.
pub fn wait_for_host_link(node: &Node, pci: PciAddress, timeout: Duration) -> Result<Option<Link>, Error> {
    let wait = |source| Error::Wait { what: "a VF to return to the host", source };
    let events = rtnl::events(false).map_err(wait)?;
    let deadline = node.budget.until("a VF to return to the host", timeout);
    loop {
        let link = host_link(node, pci)?;
        if link.is_some() || deadline.has_passed() || !node.sysfs.has(&Function::Pci(pci))? {
            return Ok(link);
        }
        // sysfs has the link shortly after the event, so check again soon.
        events.wait(deadline.at(), Duration::from_millis(20)).map_err(wait)?;
    }
}

#[cfg(test)]
mod tests {
    use identifiers::HardwareAddr;

    use super::*;

    fn link(hardware: u16) -> Link {
        Link {
            index: 7,
            name: "ibp175s0v0".into(),
            altnames: Vec::new(),
            kind: None,
            hardware,
            address: HardwareAddr::default(),
            mac: None,
            permanent_mac: None,
            mtu: 2044,
            up: false,
            running: false,
            parent: None,
            parent_netns: None,
            controller: None,
            device: None,
            settings: rtnl::LinkSettings::default(),
        }
    }

    #[test]
    fn a_vf_of_the_other_link_layer_is_refused_with_the_plugin_to_use() {
        let pci: PciAddress = "0000:af:00.2".parse().unwrap();
        require_layer(pci, &link(rtnl::ETHERNET), LinkLayer::Ethernet).unwrap();
        require_layer(pci, &link(rtnl::INFINIBAND), LinkLayer::InfiniBand).unwrap();
        let refused = |hardware, layer| {
            let error = CniError::from(require_layer(pci, &link(hardware), layer).unwrap_err());
            assert_eq!(error.code, cni::ErrorCode::UNSUPPORTED_FIELD);
            assert!(error.msg.contains("0000:af:00.2"), "{error:?}");
            error
        };
        let error = refused(rtnl::INFINIBAND, LinkLayer::Ethernet);
        assert!(error.msg.contains("InfiniBand") && error.details.contains("ib-sriov"), "{error:?}");
        let error = refused(rtnl::ETHERNET, LinkLayer::InfiniBand);
        assert!(error.msg.contains("Ethernet") && error.details.contains("the plugin sriov"), "{error:?}");
    }
}
