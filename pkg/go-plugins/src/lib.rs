//! State files of the Go plugins, for pods that they attached and Silkrail reverts.
//!
//! A node is switched to Silkrail while its pods run. The Go plugins keep a JSON file for each attachment below
//! `/var/lib/cni`, which outlives a reboot. The Go sriov plugin also keeps a file for each VF in use, which contains the
//! path of the pod's network namespace. Only these files record the former state of a device.
//!
//! A file that cannot be parsed is kept and ignored, so that DEL does not fail permanently because of it.

#![forbid(unsafe_code)]

mod allocation;
mod boot;
mod file;
mod state;

use std::path::Path;

use netns::NetNs;

pub use self::{allocation::GoVfAllocation, file::GoStateFile, state::GoStateDir};

/// Opens the network namespace at a path. `None` if there is none, or if it is the caller's: the path was then reused.
pub fn open_if_alive(path: &Path) -> Option<NetNs> {
    let netns = NetNs::open(path).ok().filter(|_| path.is_absolute())?;
    let own = NetNs::current().ok()?;
    (netns.id() != own.id()).then_some(netns)
}

#[cfg(test)]
mod tests;
