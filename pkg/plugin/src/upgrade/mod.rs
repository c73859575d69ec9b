//! What the Go plugins of this node remember, for pods that they attached and we take back.
//!
//! A node is switched to Silkrail while its pods run. The Go plugins keep a JSON file for each attachment below
//! `/var/lib/cni`, which outlives a reboot, and the Go sriov plugin one for each VF in use, whose content is the
//! path of the pod's namespace. Nothing else tells how a device was before.
//!
//! A file that cannot be understood stays where it is and counts as none: DEL must not fail for ever because of it.

mod allocation;
mod boot;
mod file;
mod state;

use std::path::Path;

use netns::NetNs;

pub use self::{allocation::Allocation, file::GoFile, state::GoState};
use crate::{Error, Node, attachment::NodeChange, error::left_behind};

/// The namespace that a path names now, unless it is the node's own: then the path has come to mean another.
pub fn living(path: &Path) -> Option<NetNs> {
    let netns = NetNs::open(path).ok().filter(|_| path.is_absolute())?;
    let own = NetNs::current().ok()?;
    (netns.id() != own.id()).then_some(netns)
}

/// Takes back changes that another program made and that no journal has, the last first, and goes on past
/// failures.
///
/// # Errors
/// What is left.
pub fn revert<C: NodeChange>(node: &Node, changes: &[C]) -> Result<(), Error> {
    let reverted = changes.iter().rev().map(|change| (change, change.revert(node)));
    let left: Vec<_> = reverted
        .filter_map(|(change, done)| done.err().map(|why| (change.to_string(), why.to_string())))
        .map(|(change, why)| journal::Left { change, why })
        .collect();
    if left.is_empty() { Ok(()) } else { Err(left_behind(&left).into()) }
}

#[cfg(test)]
mod tests;
