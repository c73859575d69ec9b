//! A PF.

use std::fmt;

use identifiers::{LinkName, MacAddr, PciAddress};
use serde::Serialize;

use crate::{Vf, VfUser};

/// A PF: a physical network function of the node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pf {
    /// Its address.
    pub pci: PciAddress,
    /// Its identification numbers.
    pub ids: Option<PciIds>,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// Its link, if that is in the node's namespace.
    pub link: Option<PfLink>,
    /// Its RDMA devices that are in the node's namespace.
    pub rdma: Vec<String>,
    /// The GUID of the first of them.
    #[serde(skip)]
    pub guid: Option<u64>,
    /// How many VFs it can have: 0 without SR-IOV.
    pub total_vfs: u32,
    /// How many it has.
    pub num_vfs: u32,
    /// Whether the kernel binds its new VFs to a driver.
    pub autoprobe: Option<bool>,
    /// Why it should not be touched.
    pub protections: Vec<ProtectionReason>,
    /// Who uses the PF itself. That the node has an address on its link is no use.
    #[serde(rename = "usedBy")]
    pub users: Vec<VfUser>,
    /// Its VFs, in the order of their numbers.
    pub vfs: Vec<Vf>,
}

/// Identification numbers, in hexadecimal as `lspci -n` shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciIds {
    /// The maker's.
    pub vendor: String,
    /// The device's.
    pub device: String,
}

/// The link of a PF.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PfLink {
    /// Its index.
    #[serde(skip)]
    pub index: u32,
    /// Its name.
    pub name: LinkName,
    /// Its MAC address; InfiniBand has none.
    pub mac: Option<MacAddr>,
    /// The MAC address that its card was made with, where the kernel knows it (since Linux 5.6): a bond gives all of its
    /// members the same.
    #[serde(skip)]
    pub permanent_mac: Option<MacAddr>,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it is InfiniBand.
    pub infiniband: bool,
}

/// Why a PF should not be touched: some drivers reset it when it gets VFs, and the node would lose more than a network
/// of pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ProtectionReason {
    /// The node's default route leads over it.
    DefaultRoute {
        /// Its link.
        link: LinkName,
    },
    /// It belongs to a bond, a bridge or the like.
    Member {
        /// Its link.
        link: LinkName,
        /// To what it belongs.
        master: String,
    },
    /// The kernel itself is connected over its RDMA device: NVMe over Fabrics, NFS, iSER.
    Kernel {
        /// The RDMA device.
        device: String,
        /// The part of the kernel.
        module: String,
    },
}

impl Pf {
    /// What a person calls it: its link's name, or its address.
    pub fn name(&self) -> String {
        self.link.as_ref().map_or_else(|| self.pci.to_string(), |link| link.name.to_string())
    }

    /// Whether it is a port of InfiniBand.
    pub fn is_infiniband(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.infiniband)
    }

    /// The VFs that somebody uses.
    pub fn used_vfs(&self) -> impl Iterator<Item = &Vf> {
        self.vfs.iter().filter(|vf| !vf.is_free())
    }
}

impl fmt::Display for ProtectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultRoute { link } => write!(f, "the node's default route leads over {link}"),
            Self::Member { link, master } => write!(f, "{link} belongs to {master}"),
            Self::Kernel { device, module } => {
                write!(f, "{module} of the kernel is connected over RDMA device {device}")
            }
        }
    }
}
