//! What a node remembers of its attachments: the state directory and what is in it.
//!
//! [`StateDir`] is the directory. In it are [`journals`], one for each attachment and plugin; [`claim`]s, which say whose a VF or
//! an RDMA device is; the addresses of [`ipam`]; and the pod map. [`orphans`] finds what has an owner without a journal.
//!
//! Waiting for a lock has a deadline, which the caller gives: a CNI call has one budget for all its waits.

#![forbid(unsafe_code)]

pub mod claim;
mod error;
pub mod journals;
mod lock_deadline;
pub mod orphans;
mod state_dir;

pub use error::Error;
pub use lock_deadline::LockDeadline;
pub use state_dir::StateDir;
