//! A PF.

use std::fmt;

use identifiers::{LinkName, MacAddr, PciAddress};
use serde::Serialize;

use crate::{Vf, VfUser};

/// A PF: a physical network function of the node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pf {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Its PCI vendor and device IDs.
    pub ids: Option<PciIds>,
    /// The driver it is bound to.
    pub driver: Option<String>,
    /// Its link, if the link is in the node's namespace.
    pub link: Option<PfLink>,
    /// The names of its RDMA devices in the node's namespace.
    pub rdma: Vec<String>,
    /// The node GUID of the first RDMA device.
    #[serde(skip)]
    pub guid: Option<u64>,
    /// The maximum number of VFs (`sriov_totalvfs`); 0 without SR-IOV.
    pub total_vfs: u32,
    /// The number of VFs (`sriov_numvfs`).
    pub num_vfs: u32,
    /// Whether the kernel binds its new VFs to a driver (`sriov_drivers_autoprobe`).
    pub autoprobe: Option<bool>,
    /// The reasons why it should not be changed.
    pub protections: Vec<ProtectionReason>,
    /// The users of the PF itself. An address of the node on its link does not count.
    #[serde(rename = "usedBy")]
    pub users: Vec<VfUser>,
    /// Its VFs, by index.
    pub vfs: Vec<Vf>,
}

/// PCI IDs in hexadecimal, as `lspci -n` shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciIds {
    /// The vendor ID, such as `15b3`.
    pub vendor: String,
    /// The device ID, such as `101d`.
    pub device: String,
}

/// The link of a PF.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PfLink {
    /// Its interface index.
    #[serde(skip)]
    pub index: u32,
    /// Its name, such as `ens6f0np0`.
    pub name: LinkName,
    /// Its MAC address; `None` for InfiniBand.
    pub mac: Option<MacAddr>,
    /// Its permanent MAC address (`IFLA_PERM_ADDRESS`, since Linux 5.6). All members of a bond have the same MAC address, but
    /// different permanent ones.
    #[serde(skip)]
    pub permanent_mac: Option<MacAddr>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it is an InfiniBand link.
    pub infiniband: bool,
}

/// Why a PF should not be changed: some drivers reset it when its VFs change, which would also interrupt the node's own
/// traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ProtectionReason {
    /// The node's default route uses it.
    DefaultRoute {
        /// The name of its link.
        link: LinkName,
    },
    /// It is a member of a bond, a bridge or a similar link.
    Member {
        /// The name of its link.
        link: LinkName,
        /// The bond or bridge.
        master: String,
    },
    /// A kernel module has connections over its RDMA device: NVMe over Fabrics, NFS, iSER.
    Kernel {
        /// The name of the RDMA device.
        device: String,
        /// The kernel module, such as `nvme_rdma`.
        module: String,
    },
}

impl Pf {
    /// Returns the name of its link, or its PCI address.
    pub fn name(&self) -> String {
        self.link.as_ref().map_or_else(|| self.pci.to_string(), |link| link.name.to_string())
    }

    /// Whether its link is an InfiniBand link.
    pub fn is_infiniband(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.infiniband)
    }

    /// Returns the VFs that are in use.
    pub fn used_vfs(&self) -> impl Iterator<Item = &Vf> {
        self.vfs.iter().filter(|vf| !vf.is_free())
    }
}

impl fmt::Display for ProtectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultRoute { link } => write!(f, "the node's default route uses {link}"),
            Self::Member { link, master } => write!(f, "{link} belongs to {master}"),
            Self::Kernel { device, module } => {
                write!(f, "the kernel module {module} has connections over RDMA device {device}")
            }
        }
    }
}
