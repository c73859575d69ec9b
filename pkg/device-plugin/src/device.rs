//! A device of a node, as selectors see it.

use std::{fmt, str::FromStr};

use identifiers::{LinkName, PciAddress, VfIndex};
use sysfs::{Function, PciId, UserSpaceNodes};

use crate::{PciPath, Pkey};

/// A network function, a scalable function, or a software RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDevice {
    /// The ID under which the kubelet knows it: a PCI address, the name of an auxiliary device, or, for a software device,
    /// the name of its RDMA device.
    pub id: String,
    /// The function; `None` for a software device.
    pub function: Option<Function>,
    /// The PCI IDs; for a scalable function those of its card.
    pub pci_id: Option<PciId>,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// The driver of the card of a scalable function; `None` for other devices.
    pub card_driver: Option<String>,
    /// Its links in the node's namespace.
    pub links: Vec<LinkName>,
    /// The bond of its link, and the other members of it: a bond may have one RDMA device for all of them.
    pub bond: Vec<LinkName>,
    /// The link layer; that of the PF if the link is in a pod.
    pub link_type: Option<LinkType>,
    /// The PF of a VF or a scalable function.
    pub pf: Option<PhysicalFunction>,
    /// The rail of its port in the fabric.
    pub rail: Option<u32>,
    /// The index of a VF on its PF, or the number of a scalable function.
    pub index: Option<VfIndex>,
    /// The number of its VFs.
    pub num_vfs: u32,
    /// The names of its RDMA devices in the node's namespace.
    pub rdma: Vec<String>,
    /// Its character devices, such as `uverbs3`, also if its RDMA device is in a pod.
    pub char_devices: Vec<String>,
    /// The NUMA node.
    pub numa_node: Option<u32>,
    /// Where it is in the PCI hierarchy.
    pub path: Option<PciPath>,
    /// The type of an auxiliary device, such as `sf`.
    pub auxiliary_type: Option<String>,
    /// The index that the firmware gives to a device of the board.
    pub acpi_index: Option<u32>,
    /// The default partition of the first port.
    pub pkey: Option<Pkey>,
    /// The state of its port, or of that of its PF; `None` if it is unknown.
    pub port: Option<PortState>,
    /// Whether the node's default route uses one of its links.
    pub has_default_route: bool,
    /// The nodes of VFIO or UIO, if it is bound to a driver that passes it to a process, so that it has no link.
    pub user_space: Option<UserSpaceNodes>,
    /// Why its files cannot be read any more: the other values are the former ones.
    pub unreadable: Option<String>,
    /// The selector of its resource that has matched it, by its place.
    pub selector: Option<usize>,
    /// Whether no selector of its resource matches any more.
    pub is_unselected: bool,
}

/// A PF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalFunction {
    /// Its PCI address.
    pub pci: PciAddress,
    /// Its link.
    pub link: Option<LinkName>,
}

/// The state of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortState {
    /// The link or the RDMA device that reports it.
    pub name: String,
    /// Whether it can carry traffic.
    pub is_up: bool,
}

/// The link layer of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet: `ether`.
    Ethernet,
    /// InfiniBand: `infiniband`.
    InfiniBand,
}

impl NodeDevice {
    /// Whether it has an RDMA device, in any namespace.
    pub fn is_rdma(&self) -> bool {
        !self.rdma.is_empty() || !self.char_devices.is_empty()
    }

    /// Returns the PCI address of the card of a scalable function.
    pub(crate) fn card(&self) -> Option<String> {
        let pf = self.auxiliary_type.as_ref().and(self.pf.as_ref())?;
        Some(pf.pci.to_string())
    }

    /// Returns its PF; its own address and link if it is one.
    pub fn own_or_pf(&self) -> Option<PhysicalFunction> {
        let own = || {
            let pci = self.function.as_ref()?.pci()?;
            Some(PhysicalFunction { pci, link: self.links.first().cloned() })
        };
        self.pf.clone().or_else(own)
    }
}

/// The text is no link layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a link type: expected \"ether\" or \"infiniband\"")]
pub struct InvalidLinkType(pub String);

impl FromStr for LinkType {
    type Err = InvalidLinkType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "ether" | "ethernet" => Ok(Self::Ethernet),
            "infiniband" | "ib" => Ok(Self::InfiniBand),
            _ => Err(InvalidLinkType(text.to_owned())),
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "ether",
            Self::InfiniBand => "infiniband",
        })
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// Returns a VF of an mlx5 card.
    pub(crate) fn vf(pf: &str, index: u32) -> NodeDevice {
        let pci = format!("0000:af:00.{}", index + 2);
        NodeDevice {
            id: pci.clone(),
            function: Some(pci.parse().unwrap()),
            pci_id: Some(PciId { vendor: 0x15b3, device: 0x101e }),
            driver: Some("mlx5_core".into()),
            card_driver: None,
            links: vec![format!("{pf}v{index}").parse().unwrap()],
            bond: Vec::new(),
            link_type: Some(LinkType::Ethernet),
            pf: Some(PhysicalFunction {
                pci: "0000:af:00.0".parse().unwrap(),
                link: Some(pf.parse().unwrap()),
            }),
            rail: None,
            index: Some(VfIndex(index)),
            num_vfs: 0,
            rdma: vec![format!("mlx5_{}", index + 2)],
            char_devices: vec![format!("uverbs{}", index + 2)],
            numa_node: Some(1),
            path: None,
            auxiliary_type: None,
            acpi_index: None,
            pkey: None,
            port: None,
            has_default_route: false,
            user_space: None,
            unreadable: None,
            selector: None,
            is_unselected: false,
        }
    }
}
