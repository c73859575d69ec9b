//! Diagnosis of a node: finds problems and suggests remedies.
//!
//! There are two steps. [`NodeFacts::read`] reads the state of the node once and changes nothing. A value that cannot be
//! read becomes [`Known::Unknown`] and is listed by [`NodeFacts::unexamined`]; it never counts as healthy. [`examine`] then
//! applies the rules, which are pure functions from facts to [`Finding`]s. A rule whose input is unknown reports nothing;
//! the finding `not-examined` reports the missing value instead.
//!
//! All files are read below a root directory: a container uses the directory where the host is mounted, a test uses a
//! temporary tree. The kernel is queried over netlink only if the root's `/proc` belongs to the running kernel and the
//! calling thread is in the host's network namespace: otherwise the replies would describe another machine or namespace.
//!
//! [`bundle::write`] packs the facts, the findings and their sources into an archive for a support ticket.

#![forbid(unsafe_code)]

pub mod bundle;
mod facts;
mod finding;
mod host_root;
mod inventory;
mod kernel_log;
mod known;
mod options;
mod rules;

pub use facts::NodeFacts;
pub use finding::{AcceptedFinding, DoctorReport, Finding, FindingId, Severity, SeverityCounts};
pub use inventory::NodeInventory;
pub use known::Known;
pub use options::{
    DefinedNetwork, DesiredDcb, DesiredState, DesiredVfs, DoctorOptions, InvalidResource, OfferedResource,
    ResourceFacts, StaleResource, UnhealthyDevice,
};
pub use rules::{ExpectedPort, examine, expected_ports, ids};
