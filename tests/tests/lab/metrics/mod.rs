//! Metrics of the daemon, on the lab's machine: what it says beside what was set, or what `rdma` says.

mod exclusive;
mod shared;
mod table;
mod weather;
