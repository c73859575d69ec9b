//! Identifiers of attachments, links and devices.
//!
//! Every type is validated when it is created, and displayed in the usual notation. A value can therefore be
//! used in a netlink message or as a file name without further checks. This crate does no I/O.

#![forbid(unsafe_code)]

mod attachment;
mod hardware_addr;
mod link_name;
mod mac;
pub mod pattern;
mod pci;
mod printable;
mod vf_index;
mod vlan;

pub use attachment::{Attachment, ContainerId, InvalidContainerId};
pub use hardware_addr::{HardwareAddr, InvalidHardwareAddr};
pub use link_name::{AnyLinkName, InvalidLinkName, LinkName};
pub use mac::{InvalidMac, MacAddr};
pub use pci::{InvalidPciAddress, PciAddress};
pub use printable::is_unprintable;
pub use vf_index::VfIndex;
pub use vlan::{InvalidVlan, VlanId, VlanProto, VlanQos};
