//! A node's VFs as its file says: planned, then made.
//!
//! ```text
//! NodeFile ─┐
//! Inventory ┼─ plan() ─ Plan ─ make() ─ Hardware
//! Memory ───┘
//! ```
//!
//! [`plan()`] does no I/O: what it says is what a dry run shows, and where nothing is to be done it has no step. A step is
//! one write to the kernel. The order is such that a VF is bound to its driver once, with its address and its settings
//! already in place: drivers of RDMA take the GUID of a device from them.
//!
//! A run that is killed leaves VFs without a driver, and the PF told not to bind new ones. [`PfRecord`] is written before the
//! first step, so the next run knows how the PF was.
//!
//! [`Apply`] does all of it for a node file, [`Recover`] brings a single function back to work.

#![forbid(unsafe_code)]

mod apply;
mod broken_function;
mod execute;
mod guid_file;
mod node_file;
mod pci_backend;
mod pf_record;
mod pf_refusal;
mod plan;
mod ready_marker;
mod recover;
mod report;
mod serde_errors;
mod stable_address;
mod step;
mod sysfs_backend;
#[cfg(test)]
mod tests;
mod vf_policy;

pub use apply::{Apply, ApplyError, lock};
pub use broken_function::{RecoverMethod, RecoverStep};
pub use execute::{PfFailure, PfFailureCause, ProgressCallback, execute};
pub use guid_file::GuidFile;
pub use node_file::{
    GuidPolicy, InvalidNodeFile, LinkState, MacPolicy, NodeFile, PfSelector, PfSpec, VfSpec,
};
pub use pci_backend::{PciBackend, PciBackendError};
pub use pf_record::PfRecord;
pub use pf_refusal::PfRefusal;
pub use plan::{ApplyPermissions, PfPlan, ProvisionPlan, plan};
pub use ready_marker::ReadyMarker;
pub use recover::{Recover, RecoverError, RecoverReport};
pub use report::{ApplyReport, ModeReport};
pub use stable_address::{stable_guid, stable_mac};
pub use step::{PfStep, vfs};
pub use sysfs_backend::{SysfsBackend, write_attribute};
