//! The resources of devices and their owners: queue pairs, memory regions and others, as in rdma-resource(8).
//!
//! The kernel tracks every resource of every device. Any user can read all of their attributes, except keys.
//!
//! The owner of a resource ([`ResourceOwner`]) is a *thread*, by its ID in the reader's PID namespace: a reader in a
//! container does not see the owners in other containers, and a resource may outlive the thread that created it. The
//! owner of a queue pair is then found by its protection domain, and that one's by its context.
//!
//! Every list is `None` if the kernel, or the device's driver, does not report that kind of resource.

mod address;
mod cm_id;
mod completion_queue;
mod context;
mod counter_mode;
mod counter_set;
mod counts;
mod memory_region;
mod optional_counters;
mod owner;
mod protection_domain;
mod query;
mod queue_pair;
mod queue_pair_names;
mod shared_receive_queue;

pub use cm_id::{CmId, CmIdState, PortSpace};
pub use completion_queue::CompletionQueue;
pub use context::Context;
pub use counter_mode::{CounterCriteria, CounterMode};
pub use counter_set::{BindMode, CounterSet};
pub use counts::ResourceCounts;
pub use memory_region::MemoryRegion;
pub use netlink_packet_rdma::QueuePairRange;
pub use optional_counters::OptionalCounters;
pub use owner::ResourceOwner;
pub use protection_domain::ProtectionDomain;
pub use queue_pair::QueuePair;
pub use queue_pair_names::{QpState, QpType};
pub use shared_receive_queue::{SharedReceiveQueue, SrqType};
