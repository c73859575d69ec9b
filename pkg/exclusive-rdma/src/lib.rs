//! An RDMA device that one pod has to itself: into the pod, and home again.
//!
//! In exclusive mode an RDMA device is in one network namespace. Read [`RdmaAdd`] first; what it changes on the node is
//! [`RdmaChange`]. The kernel gives a device that moves new numbers for its character devices, which a container has been
//! given by then: [`move_guard`] sees to it that they are the same again, and [`char_device_numbers`] remembers those that are not.

#![forbid(unsafe_code)]

mod change;
mod char_device_numbers;
mod device_move;
mod device_ready;
mod error;
mod move_guard;
mod pod_map_update;
mod rdma_add;
mod requirement;

pub use change::RdmaChange;
pub use device_move::DeviceMove;
pub use rdma_add::{MovedDevice, RdmaAdd, require_exclusive_mode};
pub use requirement::ExclusiveRdmaRequirement;

/// The plugin whose only changes these are.
pub const PLUGIN: &str = "rdma";
