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
mod broken;
mod guid_file;
mod hardware;
mod identity;
mod make;
mod memory;
mod node_file;
mod plain;
mod plan;
mod policy;
mod ready;
mod recover;
mod refusal;
mod report;
mod step;
mod system;
#[cfg(test)]
mod tests;

pub use apply::{Apply, ApplyError, lock};
pub use broken::{RecoverMethod, RecoverStep};
pub use guid_file::GuidFile;
pub use hardware::{PciBackend, PciBackendError};
pub use identity::{stable_guid, stable_mac};
pub use make::{PfFailure, PfFailureCause, ProgressCallback, execute};
pub use memory::PfRecord;
pub use node_file::{
    GuidPolicy, InvalidNodeFile, LinkState, MacPolicy, NodeFile, PfSelector, PfSpec, VfSpec,
};
pub use plan::{ApplyPermissions, PfPlan, ProvisionPlan, plan};
pub use ready::ReadyMarker;
pub use recover::{Recover, RecoverError, RecoverReport};
pub use refusal::PfRefusal;
pub use report::{ApplyReport, ModeReport};
pub use step::{PfStep, vfs};
pub use system::{SysfsBackend, write_attribute};
