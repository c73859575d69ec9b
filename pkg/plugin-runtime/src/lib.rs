//! What the plugins share.
//!
//! [`Node`] and [`PodNetns`] are the two sides of an attachment: where it is made and where it goes; [`Budget`] is how
//! long that may take.
//! [`attachment`] begins, takes back and collects journals; [`delegate`] calls the IPAM plugin;
//! [`retry_while_busy`] waits for drivers that are busy; [`orphan_gc`] releases what no journal tells of; [`interface`] gives a pod's link
//! its addresses and routes; [`pod_map_entry`] fills the pod map; [`Error`] is where a failure gets its code.
//!
//! A plugin is a [`JournaledPlugin`]: its own configuration, changes, ADD and CHECK. [`Adapter`] makes a CNI plugin of it, and
//! does what all of them do alike. [`run()`] is what an executable's `main` calls, and [`RevertByJournal`] what `silkrail gc` does.

#![forbid(unsafe_code)]

mod adapter;
pub mod attachment;
mod budget;
mod condition;
pub mod conf;
pub mod delegate;
mod error;
pub mod interface;
pub mod log;
mod node;
pub mod orphan_gc;
pub mod pod_map_entry;
mod pod_netns;
mod retry;
mod revert_by_journal;
mod run;

pub use adapter::{Adapter, JournaledPlugin, read_journal};
pub use budget::{Budget, BudgetShare, Deadline, seconds};
pub use condition::{Condition, PluginError};
pub use error::{Error, not_available};
pub use node::Node;
pub use pod_netns::{PodNetns, find_netns, netns_of, other_netns};
pub use retry::retry_while_busy;
pub use revert_by_journal::RevertByJournal;
pub use run::run;
