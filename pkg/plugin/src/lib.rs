//! What the plugins share.
//!
//! [`Node`] and [`PodNetns`] are the two sides of an attachment: where it is made and where it goes; [`Budget`] is how
//! long that may take.
//! [`attachment`] begins, takes back and collects journals; [`delegate`] calls the IPAM plugin;
//! [`retry_while_busy`] waits for drivers that are busy; [`collect`] releases what no journal tells of; [`interface`] gives a pod's link
//! its addresses and routes; [`entry`] fills the pod map; [`Error`] is where a failure gets its code.
//!
//! A plugin is a [`JournaledPlugin`]: its own configuration, changes, ADD and CHECK. [`Adapter`] makes a CNI plugin of it, and
//! does what all of them do alike. [`run()`] is what an executable's `main` calls, and [`RevertByJournal`] what `silkrail gc` does.

#![forbid(unsafe_code)]

mod adapter;
pub mod attachment;
mod budget;
pub mod collect;
mod condition;
pub mod conf;
pub mod delegate;
pub mod entry;
mod error;
pub mod interface;
mod journaled;
pub mod log;
mod node;
mod patience;
mod pod;
mod run;

pub use adapter::{Adapter, JournaledPlugin, read_journal};
pub use budget::{Budget, BudgetShare, Deadline, seconds};
pub use condition::{Condition, PluginError};
pub use error::{Error, not_available};
pub use journaled::RevertByJournal;
pub use node::Node;
pub use patience::retry_while_busy;
pub use pod::{PodNetns, find_netns, netns_of, other_netns};
pub use run::run;
