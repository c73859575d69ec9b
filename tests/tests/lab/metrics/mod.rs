//! Metrics of the daemon, on the lab's machine: what it says beside what was set, or what `rdma` says.

mod answers;
mod catalogue;
mod dashboards;
mod exclusive;
mod limits;
mod links;
mod load;
mod psn;
mod shared;
mod table;
mod threads;
mod traffic;
mod weather;
