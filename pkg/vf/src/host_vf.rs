//! A VF in the host namespace.

use cni::Error as CniError;
use identifiers::{PciAddress, VfIndex};
use plugin_runtime::{Error, Node};
use podmap::RdmaInfo;
use rtnl::{Link, LinkLayer, VfSettings};
use sysfs::Function;

use crate::{error::VfError, host_link};

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

/// The PF of a VF or of a scalable function.
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

    /// Returns the PF of a PCI address, without the settings of its VFs.
    ///
    /// # Errors
    /// If it has no link on the host.
    pub fn of(node: &Node, pci: PciAddress) -> Result<Self, Error> {
        let link = node.links()?.link(&node.sysfs.pf_link(pci)?)?;
        Ok(Self { pci, link })
    }

    /// Returns the part of a pod map entry of a function with `link`, without its own address.
    pub(crate) fn rdma_info(&self, link: Option<&Link>) -> RdmaInfo {
        RdmaInfo {
            pf_pci: Some(self.pci),
            host_netdev: link.map(|link| link.name.clone()),
            master: Some(self.link.name.clone()),
            ..RdmaInfo::default()
        }
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

    /// Finds a VF that is on the host, or is returning to it.
    ///
    /// # Errors
    /// If it is not a VF, has no link, is in another namespace, is used by the node, or has another link layer.
    pub fn find(node: &Node, pci: PciAddress, layer: LinkLayer) -> Result<Self, Error> {
        let pf = Self::exists(node, pci)?;
        let index = node.sysfs.vf_index(pci)?;
        let link = host_link::find_unused(node, &Function::Pci(pci), layer)?;
        let (pf, settings) = VfParent::find(node, pf, index)?;
        Ok(Self { pci, pf, index, link, settings })
    }

    /// Returns the VF's part of a pod map entry.
    pub fn rdma_info(&self) -> RdmaInfo {
        let of_parent = self.pf.rdma_info(self.link.as_ref());
        RdmaInfo { pci: Some(self.pci), vf_index: Some(self.index.0), ..of_parent }
    }
}
