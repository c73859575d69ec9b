//! What is wrong with a node, and what to do about it.
//!
//! Two steps. [`NodeFacts::read`] looks at the node once and changes nothing. What cannot be read becomes [`Known::Unknown`]
//! and is told of ([`NodeFacts::unexamined`]); it never counts as well. [`examine`] then judges: pure rules, facts in,
//! [`Finding`]s out. A rule whose fact is unknown says nothing, and the finding `not-examined` says that.
//!
//! Everything is read below a root directory, so a container uses its host's and a test a tree of files. The kernel is
//! asked by netlink only if the root's `/proc` is that of the running kernel and the calling thread is in the node's
//! network namespace: otherwise the answers would be another machine's or another namespace's.
//!
//! [`bundle::write`] packs the facts, the findings and what they come from for a support ticket.

#![forbid(unsafe_code)]

pub mod bundle;
mod facts;
mod finding;
mod host_root;
mod known;
mod rules;

pub use facts::{DesiredState, DesiredVfs, DoctorOptions, NodeFacts, StaleResource};
pub use finding::{DoctorReport, Finding, FindingId, Severity, SeverityCounts};
pub use known::Known;
pub use rules::{examine, ids};
