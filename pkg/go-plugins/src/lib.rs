//! What the Go plugins of this node remember, for pods that they attached and we take back.
//!
//! A node is switched to Silkrail while its pods run. The Go plugins keep a JSON file for each attachment below
//! `/var/lib/cni`, which outlives a reboot, and the Go sriov plugin one for each VF in use, whose content is the
//! path of the pod's namespace. Nothing else tells how a device was before.
//!
//! A file that cannot be understood stays where it is and counts as none: DEL must not fail for ever because of it.

#![forbid(unsafe_code)]

mod allocation;
mod boot;
mod file;
mod state;

use std::path::Path;

use netns::NetNs;

pub use self::{allocation::GoVfAllocation, file::GoStateFile, state::GoStateDir};

/// The namespace that a path names now, unless it is the node's own: then the path has come to mean another.
pub fn open_if_alive(path: &Path) -> Option<NetNs> {
    let netns = NetNs::open(path).ok().filter(|_| path.is_absolute())?;
    let own = NetNs::current().ok()?;
    (netns.id() != own.id()).then_some(netns)
}

#[cfg(test)]
mod tests;
