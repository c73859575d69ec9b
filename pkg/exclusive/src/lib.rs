//! An RDMA device that one pod has to itself: into the pod, and home again.
//!
//! In exclusive mode an RDMA device is in one network namespace. Read [`RdmaAdd`] first; what it changes on the node is
//! [`RdmaChange`]. The kernel gives a device that moves new numbers for its character devices, which a container has been
//! given by then: [`turn`] sees to it that they are the same again, and [`renumbered`] remembers those that are not.

#![forbid(unsafe_code)]

mod addition;
mod change;
mod described;
mod device_move;
mod error;
mod need;
mod ready;
mod renumbered;
mod turn;

pub use addition::{MovedDevice, RdmaAdd, require_exclusive_mode};
pub use change::RdmaChange;
pub use device_move::DeviceMove;
pub use need::ExclusiveRdmaRequirement;

/// The plugin whose only changes these are.
pub const PLUGIN: &str = "rdma";
