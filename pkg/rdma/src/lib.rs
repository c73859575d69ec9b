//! RDMA devices: which there are, which belongs to a link or a PCI function, in whose namespace they are, what is in
//! use on them and by whom.
//!
//! Two modes, a setting of the whole node ([`NetnsMode`]): in *shared* mode every network namespace sees every
//! RDMA device; in *exclusive* mode a device is in one namespace, and only there visible and usable.
//!
//! Start with [`Handle::open`]: the handle sees what the calling thread's namespace sees. On a node without RDMA it fails
//! with [`Error::NoRdma`] after one system call.
//!
//! What the kernel does, and no manual says:
//! * A device is looked up in the namespace of the *socket*, but a move compares with the *calling thread's*. So a
//!   device is moved out of a pod by a thread that is inside the pod: [`move_device_from`].
//! * A move tears down every user context of the device, whoever holds it. It never fails because the device
//!   is in use.
//! * When a namespace dies, the kernel brings its devices home a little later: [`Handle::wait_for_return`].
//! * A device keeps its index and its name wherever it goes; names are unique on the node. Its `uverbsN` changes
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
pub use guid::Guid;
pub use handle::{Handle, RdmaFamily};
pub use mode::{InvalidMode, ModeError, NetnsMode};
pub use move_device::{MoveError, move_device_from};
pub use move_lock::MoveLock;
pub use netlink_packet_rdma::{HwCounter, HwCounterTable, NodeType, PhysState, PortState};
pub use port::{LinkLayer, Port};
pub use wait_for_device::is_moving;
