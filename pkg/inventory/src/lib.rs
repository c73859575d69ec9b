//! The PFs and VFs of a node, and their users.
//!
//! [`Inventory::read`] reads everything once and changes nothing. Evidence that a VF is in use is a [`VfUser`]. There are
//! several kinds, and one piece is sufficient, since removing a VF that is in use disconnects a pod.

#![forbid(unsafe_code)]

mod error;
mod inventory;
mod links;
mod node_paths;
mod pf;
#[cfg(test)]
mod test_fixture;
mod vf;
mod vf_users;

pub use error::Error;
pub use inventory::Inventory;
pub use links::default_route_links;
pub use node_paths::NodePaths;
pub use pf::{PciIds, Pf, PfLink, ProtectionReason};
pub use vf::Vf;
pub use vf_users::VfUser;
