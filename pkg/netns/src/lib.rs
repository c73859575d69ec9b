//! A network namespace as a value.
//!
//! The network namespace is an attribute of a *thread*, and a socket always belongs to the namespace in which it
//! was created. Therefore a thread enters another namespace only for a short time: it calls setns(2), does one
//! thing there (opens a socket, writes a sysctl) and returns. [`NetNs::run`] does that, and is the only place of
//! the project that calls `setns`. A separate thread for each such operation would cost a seventh of the time of
//! an ADD on an idle machine, and a third on a busy one.
//!
//! Two pitfalls:
//! * `/proc/sys/net` shows the namespace of the thread that opens it; `/sys` shows the namespace of the process
//!   that *mounted* it. The links and RDMA devices of a pod never appear in `/sys/class` of the host.
//! * A path like `/proc/1234/ns/net` may refer to another namespace after the process has exited. Compare
//!   [`NetNsId`]s, never paths.

#![forbid(unsafe_code)]

mod cookie;
mod found;
mod held;
mod holders;
mod id;
mod liveness;
mod namespace;
mod node;
mod others;

pub use found::{FoundNamespaces, FoundNetNs};
pub use holders::NotOnNode;
pub use id::NetNsId;
pub use liveness::{LiveNetns, NetnsLiveness, sees_every_process};
pub use namespace::{Error, NetNs};
pub use node::{require_node_netns, require_node_netns_if_known};
pub use others::{OtherNetNs, Process};
