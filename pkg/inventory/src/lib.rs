//! The PFs and VFs of a node, and who uses them.
//!
//! [`Inventory::read`] looks once at everything and changes nothing. What says that a VF is in use is a [`VfUser`]: eight
//! kinds of evidence, of which any one is enough, for a VF that goes while somebody uses it takes a pod's network away.

#![forbid(unsafe_code)]

mod error;
mod inventory;
mod links;
mod pf;
#[cfg(test)]
mod test_fixture;
mod vf;
mod vf_users;

pub use error::Error;
pub use inventory::{Inventory, NodePaths};
pub use pf::{PciIds, Pf, PfLink, ProtectionReason};
pub use vf::Vf;
pub use vf_users::VfUser;
