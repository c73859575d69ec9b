//! The code that all CNI plugins share.
//!
//! [`Node`] and [`PodNetns`] are the two sides of an attachment, the host and the pod. [`Budget`] limits the total time
//! that a call waits.
//! [`attachment`] begins and reverts journals, `attachment_gc` collects them; [`delegate`] calls the IPAM plugin;
//! [`retry_while_busy`] waits for busy drivers; [`orphan_gc`] releases orphaned claims; [`interface`] gives a pod's link
//! its addresses and routes; [`ipv6`] tells whether the kernel has IPv6; [`pod_map_entry`] fills the pod map; [`Error`] maps each failure to its CNI error code;
//! [`policy`] compares what an ADD takes with the policy of the node.
//!
//! A plugin implements [`JournaledPlugin`]: its own configuration, changes, ADD and CHECK. [`Adapter`] turns it into a CNI
//! plugin and implements the common part. An executable's `main` calls [`run()`]; `silkrail gc` uses [`RevertByJournal`].

#![forbid(unsafe_code)]

mod adapter;
mod address_conflict;
pub mod arp;
pub mod attachment;
mod attachment_gc;
mod budget;
mod call_log;
mod condition;
pub mod conf;
pub mod delegate;
mod error;
mod go_attachment;
pub mod interface;
pub mod ipv6;
mod link_up;
pub mod log;
mod node;
pub mod orphan_gc;
pub mod pod_map_entry;
mod pod_netns;
pub mod policy;
mod retry;
mod revert_by_journal;
mod run;
pub mod sysctl;
mod unjournaled;
mod unused_master;

pub use adapter::{Adapter, JournaledPlugin, read_journal};
pub use address_conflict::ConflictDetection;
pub use budget::{Budget, BudgetShare, Deadline, seconds};
pub use condition::{Condition, PluginError};
pub use error::{Error, FIRMWARE_TIMEOUT, not_available};
pub use go_attachment::is_attached_by_go_since;
pub use node::Node;
pub use pod_netns::{PodNetns, every_other_netns, find_netns, netns_of, other_netns};
pub use retry::retry_while_busy;
pub use revert_by_journal::RevertByJournal;
pub use run::run;
pub use unjournaled::release_unjournaled_addresses;
pub use unused_master::UnusedMaster;
