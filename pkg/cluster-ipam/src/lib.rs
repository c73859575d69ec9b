//! The pools of a cluster on its nodes.
//!
//! [`Agent`] runs on each node. It keeps the directory of the node up to date, which plugins read: the `SpiderIPPool` objects
//! of the cluster, and in the store the blocks of addresses that the node has leased. An ADD reads both and makes no request.
//! Only if the node has no free address of its pools, it asks the agent for a block, over a socket (see [`ipam::AgentRequest`]).
//!
//! [`Controller`] runs once in a cluster. It reclaims the blocks of nodes that are gone, and writes the status of pools.

#![forbid(unsafe_code)]

mod agent;
mod block_availability;
mod cluster_objects;
mod controller;
mod hold_down;
mod idle_times;
mod ip_block;
mod ip_reservation;
mod kill_point;
mod kube_blocks;
mod leasing;
mod node_object;
mod node_pods;
mod node_release;
mod node_state;
#[cfg(test)]
mod offline_node;
mod plan;
mod pod_annotations;
mod pod_directory;
mod pod_reservations;
mod pod_watch;
mod pool_directory;
mod pool_selectors;
mod pool_status;
mod session;
mod socket;
mod sync_log;
mod use_reports;

pub use agent::{Agent, AgentError, AgentOptions};
pub use controller::{Controller, ControllerOptions};
pub use ip_block::{InvalidIpBlock, IpBlockObject, IpBlockOwner, IpBlockSpec, IpBlockStatus};
pub use kube_blocks::KubeBlocks;
pub use node_release::{LeasedBlock, NodePresence, NodeRelease, NodeReleaseError};
