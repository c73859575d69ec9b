//! The RDMA mode of a node: whether RDMA devices are shared by all network namespaces or belong to one.
//!
//! [`CurrentMode::read`] reads the current mode and the mode at the next boot, [`ensure`] sets the mode, and [`preview`]
//! returns what that would do. The kernel refuses to change the mode while another network namespace exists, so a node often
//! has one mode and is configured to boot in the other.

#![forbid(unsafe_code)]

mod change;
mod current;
mod error;

pub use change::{BlockingNetns, ModeChange, ModeOutcome, PersistedMode, ensure, preview};
pub use current::{CurrentMode, ModeSource};
pub use error::Error;
