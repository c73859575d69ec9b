//! The persistent state of a node: the state directory and its content.
//!
//! [`StateDir`] is the directory. It contains the [`journals`], one for each attachment and plugin; the [`claim`]s, which
//! record the owner of a VF or an RDMA device; the address claims of [`ipam`]; and the pod map. [`orphans`] finds claims and
//! files whose owner has no journal.
//!
//! Each wait for a lock has a deadline, which the caller passes: a CNI call has one time budget for all its waits.

#![forbid(unsafe_code)]

mod awaited_return;
pub mod claim;
mod container_root;
mod error;
pub mod journals;
mod lock_deadline;
pub mod orphans;
mod places;
mod state_dir;

pub use error::Error;
pub use lock_deadline::LockDeadline;
pub use places::is_below;
pub use state_dir::StateDir;
