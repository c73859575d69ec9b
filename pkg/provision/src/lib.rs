//! Plans and applies a node file: the RDMA mode, VFs, MTUs and DCB settings of a node.
//!
//! ```text
//! NodeFile ────┐
//! NodeReading ─┴─ plan() ─ ProvisionPlan ─ execute() ─ PciBackend
//! ```
//!
//! [`plan()`] does no I/O. A dry run shows its result, which has no steps if nothing needs to change. A step is one write to
//! the kernel. Steps are ordered so that a VF is bound to its driver once, with its address and its settings already in
//! place: RDMA drivers derive the GUID of a device from them.
//!
//! A killed run may leave VFs without a driver and automatic binding of the PF's VFs disabled. [`PfRecord`] is written before
//! the first step, so the next run can restore the PF's former state.
//!
//! [`Apply`] applies a node file, [`Recover`] repairs a single PF or VF.

#![forbid(unsafe_code)]

mod apply;
mod broken_function;
mod dcb_plan;
mod dcb_reading;
mod dcb_record;
mod execute;
mod guid_file;
mod invalid_node_file;
mod node_file;
mod node_reading;
mod pci_backend;
mod pf_record;
mod pf_refusal;
mod plan;
mod ready_marker;
mod recover;
mod report;
mod stable_address;
mod step;
mod sysfs_backend;
#[cfg(test)]
mod tests;
mod vf_policy;

pub use apply::{Apply, ApplyError, lock};
pub use broken_function::{RecoverMethod, RecoverStep};
pub use dcb_reading::DcbReading;
pub use dcb_record::DcbRecord;
pub use execute::{PfFailure, PfFailureCause, ProgressCallback, execute};
pub use guid_file::GuidFile;
pub use invalid_node_file::InvalidNodeFile;
pub use node_file::{GuidPolicy, LinkState, MacPolicy, NodeFile, PfSelector, PfSpec, VfSpec};
pub use node_reading::{NodeReading, NodeReadingError};
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
