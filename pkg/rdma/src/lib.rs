//! RDMA devices: listing them, finding those of a link or a PCI function, moving them between network namespaces, and
//! reading their resources and the owners of these.
//!
//! The RDMA mode is a setting of the whole node ([`NetnsMode`]): in *shared* mode every RDMA device is visible in every
//! network namespace; in *exclusive* mode a device is in one namespace, and is visible and usable only there.
//!
//! Start with [`Handle::open`]: the handle has the devices that are visible in the calling thread's namespace. On a node
//! without RDMA it fails with [`Error::NoRdma`] after one system call.
//!
//! Undocumented behaviour of the kernel:
//! * A device is looked up in the namespace of the *socket*, but a move compares with the *calling thread's*. So a
//!   device is moved out of a pod by a thread that is inside the pod: [`move_device_from`].
//! * A move destroys every user context of the device, regardless of its owner. It never fails because the device
//!   is in use.
//! * When a namespace is deleted, the kernel returns its devices to the host a little later: [`Handle::wait_for_return`].
//! * A device keeps its index and its name when it moves; names are unique on the node. Its `uverbsN` changes
//!   if another device moves at the same time, or a lower number is free: [`MoveLock`], [`CharDevices`].

#![forbid(unsafe_code)]

mod char_devices;
mod counters;
mod device;
mod driver;
mod error;
mod guid;
mod handle;
mod mode;
mod move_device;
mod move_lock;
mod port;
pub mod resource;
mod wait_for_device;

pub use char_devices::CharDevices;
pub use device::Device;
pub use error::Error;
pub use guid::{Guid, InvalidGuid};
pub use handle::{Handle, RdmaFamily};
pub use mode::{InvalidMode, ModeError, NetnsMode};
pub use move_device::{MoveError, move_device_from};
pub use move_lock::MoveLock;
pub use netlink_packet_rdma::{HwCounter, HwCounterTable, NodeType, PhysState, PortState};
pub use port::{LinkLayer, Port};
pub use wait_for_device::is_moving;
