//! A function in the host namespace: a VF or a scalable function (SF).

use cni::Error as CniError;
use identifiers::MacAddr;
use plugin_runtime::{Error, Node};
use podmap::RdmaInfo;
use rtnl::{Link, LinkLayer};
use sysfs::{AuxiliaryName, Function};

use crate::{HostVf, VfParent, host_link};

/// A function whose link is in the host namespace, or which has none.
#[derive(Debug)]
pub enum HostFunction {
    /// A VF.
    Vf(Box<HostVf>),
    /// A scalable function. It has no settings on its PF.
    Scalable(Box<HostSf>),
}

/// A scalable function in the host namespace.
#[derive(Debug)]
pub struct HostSf {
    pf: VfParent,
    link: Option<Link>,
}

impl HostFunction {
    /// Checks that a function exists and is a VF or a scalable function.
    ///
    /// # Errors
    /// If it is not.
    pub fn exists(node: &Node, function: &Function) -> Result<(), Error> {
        match function {
            Function::Pci(pci) => HostVf::exists(node, *pci).map(drop),
            Function::Auxiliary(name) => HostSf::exists(node, name).map(drop),
        }
    }

    /// Checks that the node has at least one VF or scalable function.
    ///
    /// # Errors
    /// If it has none.
    pub fn any_exists(node: &Node) -> Result<(), Error> {
        if node.sysfs.any_vf()?.is_some() || node.sysfs.has_scalable()? {
            return Ok(());
        }
        let details = "create VFs with the SR-IOV operator or in /sys/class/net/<PF>/device/sriov_numvfs";
        Err(CniError::config("no VF exists on this node").with_details(details).into())
    }

    /// Finds a function with an Ethernet link that is on the host, or is returning to it.
    ///
    /// # Errors
    /// As [`HostVf::find`].
    pub fn find(node: &Node, function: &Function) -> Result<Self, Error> {
        match function {
            Function::Pci(pci) => HostVf::find(node, *pci, LinkLayer::Ethernet).map(Box::new).map(Self::Vf),
            Function::Auxiliary(name) => HostSf::find(node, name).map(Box::new).map(Self::Scalable),
        }
    }

    /// Returns its link; `None` if it is bound to a user-space driver.
    pub fn link(&self) -> Option<&Link> {
        match self {
            Self::Vf(vf) => vf.link.as_ref(),
            Self::Scalable(sf) => sf.link.as_ref(),
        }
    }

    /// Returns its PF.
    pub fn pf(&self) -> &VfParent {
        match self {
            Self::Vf(vf) => &vf.pf,
            Self::Scalable(sf) => &sf.pf,
        }
    }

    /// Returns its administrative MAC address, if it has one.
    pub fn admin_mac(&self) -> Option<MacAddr> {
        match self {
            Self::Vf(vf) => vf.settings.as_ref()?.mac.filter(|mac| !mac.is_zero()),
            Self::Scalable(_) => None,
        }
    }

    /// Returns its part of a pod map entry.
    pub fn rdma_info(&self) -> RdmaInfo {
        match self {
            Self::Vf(vf) => vf.rdma_info(),
            Self::Scalable(sf) => sf.pf.rdma_info(sf.link.as_ref()),
        }
    }
}

impl HostSf {
    /// Checks that an auxiliary device exists, and returns its PF.
    fn exists(node: &Node, name: &AuxiliaryName) -> Result<VfParent, Error> {
        let pf = node.sysfs.pf_of_scalable(name)?.ok_or_else(|| {
            let msg = format!("deviceID: there is no auxiliary device {name} of a PCI device on this node");
            CniError::config(msg).with_details("`ls /sys/bus/auxiliary/devices` lists the scalable functions")
        })?;
        VfParent::of(node, pf)
    }

    fn find(node: &Node, name: &AuxiliaryName) -> Result<Self, Error> {
        let pf = Self::exists(node, name)?;
        let link = host_link::find_unused(node, &Function::Auxiliary(name.clone()), LinkLayer::Ethernet)?;
        Ok(Self { pf, link })
    }
}
