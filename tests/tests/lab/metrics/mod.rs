//! Metrics of the daemon, on the lab's machine: what it says beside what was set, or what `rdma` says.

mod catalogue;
mod dashboards;
mod degraded;
mod exclusive;
mod http_answers;
mod limits;
mod links;
mod load;
mod psn;
mod shared;
mod table;
mod threads;
mod traffic;
