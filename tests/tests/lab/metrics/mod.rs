//! Metrics of the daemon, on the lab's machine: what it says beside what was set, or what `rdma` says.

mod dashboards;
mod exclusive;
mod load;
mod shared;
mod table;
mod weather;
