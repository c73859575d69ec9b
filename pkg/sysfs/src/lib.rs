//! PCI functions, their links and their RDMA devices, read from sysfs; of a link's queues also how they are polled, which is
//! the one thing that is written.
//!
//! Everything is read below a root that the caller gives ([`Sysfs`]), so a test uses a directory tree and a
//! container its host's `/sys`.
//!
//! Two traps:
//! * A sysfs mount shows the network namespace of whoever *mounted* it. A VF whose link or RDMA device is in
//!   a pod has an empty `net/` or `infiniband/` here; its `infiniband_verbs/` stays, which is how
//!   [`Sysfs::uverbs`] tells "in a pod" from "has no RDMA".
//! * Names of links and RDMA devices are labels that udev and people change. The function's address is what
//!   stays.

#![forbid(unsafe_code)]

mod detached;
mod error;
mod function;
mod gid;
mod napi;
mod network;
mod pci;
mod rdma;
mod root;
#[cfg(test)]
mod test_fixture;

pub use detached::DetachedSysfs;
pub use error::Error;
pub use function::{AuxiliaryName, Function, InvalidFunction};
pub use gid::{GidEntry, GidType, NoRoceV2};
pub use napi::NapiSettings;
pub use network::PciId;
pub use root::Sysfs;
