//! The RDMA mode of a node: whether RDMA devices are shared by all network namespaces or belong to one.
//!
//! [`CurrentMode::read`] says what it is now and will be at the next boot, [`ensure`] sets it, and [`preview`] says what that would
//! do. The kernel refuses to change the mode while another network namespace is there, so a node is often in one mode and
//! told to boot in the other.

#![forbid(unsafe_code)]

mod change;
mod current;
mod error;

pub use change::{BlockingNetns, ModeChange, ModeOutcome, PersistedMode, ensure, preview};
pub use current::{CurrentMode, ModeSource};
pub use error::Error;
