//! Moving an RDMA device to one pod, and returning it to the host.
//!
//! In exclusive mode an RDMA device is in one network namespace. Read [`RdmaAdd`] first; its changes on the node are
//! [`RdmaChange`]. The kernel assigns new numbers to the character devices of a device that moves, but by then the device
//! plugin has passed the old ones to a container. [`move_guard`] keeps the numbers the same, and [`char_device_numbers`]
//! records devices for which that failed.

#![forbid(unsafe_code)]

mod change;
mod char_device_numbers;
mod close_gaps;
mod device_move;
mod device_ready;
mod driver_rebind;
mod error;
mod move_guard;
mod pod_map_update;
mod port_counters;
mod rdma_add;
mod requirement;

pub use change::{PLUGIN, RdmaChange};
pub use close_gaps::{Renumbering, close_gaps, preview_gaps};
pub use device_move::DeviceMove;
pub use driver_rebind::DriverRebind;
pub use rdma_add::{MovedDevice, RdmaAdd, require_exclusive_mode};
pub use requirement::ExclusiveRdmaRequirement;
