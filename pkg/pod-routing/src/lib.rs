//! The routing of a pod's link: what [`plugin_runtime::interface`] configures, and beyond it a rail's own routing table
//! (`rail`) and the pod's default route (`defaultRoute`).
//!
//! A rail is one of several networks of a pod, each with a NIC of its own. Packets from a rail's address must leave through
//! the rail's link even if other links are in the same subnet. So each rail has a table with its routes, and a rule for each
//! of its addresses. It also matters for `rdma_cm`: the kernel drops a connection request unless the route between its two
//! addresses is through the link on which it arrived (`validate_ipv4_net_dev` in `drivers/infiniband/core/cma.c`; kernels
//! before commit "RDMA/cma: Use output interface for net_dev check" do not limit that lookup to the link).
//!
//! Nothing on the host takes part: the kernel resolves the route of a GID in the namespace of the link to which the GID
//! belongs (`set_addr_netns_by_gid_rcu` in `drivers/infiniband/core/addr.c`), also if the RDMA device is the host's.

#![forbid(unsafe_code)]

mod arp;
mod conf;
mod configure;
mod default_route;
mod error;
mod rules;
mod table;

pub use conf::{PodRouting, RailConf};
pub use rules::RailRules;
