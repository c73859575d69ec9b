//! What the plugins share.
//!
//! [`Node`] and [`Pod`] are the two sides of an attachment: where it is made and where it goes; [`Budget`] is how
//! long that may take.
//! [`attachment`] begins, takes back and collects journals; [`delegate`] calls the IPAM plugin;
//! [`patiently`] waits for drivers that are busy; [`claim`] says whose a device is; [`lost`] finds what no journal tells of; [`interface`] gives a pod's link its
//! addresses and routes; [`entry`] fills the pod map; [`upgrade`] reads what the Go plugins left; [`Error`] is where a
//! failure gets its code. [`run()`] is what an executable's `main` calls, and [`Journaled`] what `silkrail gc` does.

#![forbid(unsafe_code)]

pub mod attachment;
mod budget;
pub mod claim;
pub mod delegate;
pub mod entry;
mod error;
pub mod interface;
mod journaled;
pub mod journals;
pub mod log;
pub mod lost;
mod mac;
mod node;
mod patience;
mod pod;
mod run;
mod state;
pub mod upgrade;

pub use budget::{Budget, Deadline, Share, seconds};
pub use error::Error;
pub use journaled::Journaled;
pub use mac::mac;
pub use node::Node;
pub use patience::patiently;
pub use pod::{Pod, find_netns, netns_of, other_netns};
pub use run::run;
pub use state::State;
