//! Metrics of the daemon on the lab's machine, compared with the simulated values or with the output of the `rdma` tool.

mod catalogue;
mod dashboards;
mod degraded;
mod exclusive;
mod http_answers;
mod limits;
mod links;
mod load;
mod other_plugins;
mod psn;
mod queue_pairs;
mod restart;
mod series;
mod shared;
mod spiderpool_dashboards;
mod table;
mod threads;
mod traffic;
