//! Reads PCI functions, their links and their RDMA devices from sysfs. The only files that it writes are the NAPI settings
//! of a link and those that bind a function to a driver.
//!
//! All files are read below a root that the caller specifies ([`Sysfs`]): a test uses a temporary directory, a
//! container the `/sys` of its host.
//!
//! Two pitfalls:
//! * A sysfs mount shows the network namespace of the process that *mounted* it. A VF whose link or RDMA device
//!   is in a pod has an empty `net/` or `infiniband/` here. Its `infiniband_verbs/` is not empty, which is how
//!   [`Sysfs::uverbs`] distinguishes "in a pod" from "without RDMA".
//! * udev and administrators can rename links and RDMA devices. Only the address of the function is stable.

#![forbid(unsafe_code)]

mod detached;
mod directory;
mod driver;
mod error;
mod function;
mod gid;
mod napi;
mod network;
mod pci;
mod pci_express;
mod rdma;
mod root;
#[cfg(test)]
mod test_fixture;
mod topology;
mod user_space;

pub use detached::DetachedSysfs;
pub use error::Error;
pub use function::{AuxiliaryName, Function, InvalidFunction};
pub use gid::{GidEntry, GidTable, GidType, NoRoceV2};
pub use napi::NapiSettings;
pub use network::PciId;
pub use pci_express::{parse_aer_total, parse_link_speed, parse_link_width};
pub use root::Sysfs;
pub use user_space::UserSpaceNodes;
