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
mod live_netns;
mod state;

pub use self::{allocation::GoVfAllocation, file::GoStateFile, live_netns::open_if_alive, state::GoStateDir};

#[cfg(test)]
mod tests;
