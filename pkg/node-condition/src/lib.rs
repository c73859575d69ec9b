//! The condition `RDMAHealthy` of the node in the Kubernetes API, from the record of `silkrail doctor --record`.
//!
//! ```text
//! DoctorRecord ── NodeCondition ── UpdateSchedule ── PATCH nodes/NAME/status
//! ```
//!
//! The semantics are those of node-problem-detector: a condition has a heartbeat and keeps the time of its last change of status.
//! The only permission that is needed is `patch` of `nodes/status`: an empty patch returns the node without changing it.

#![forbid(unsafe_code)]

mod condition;
mod publisher;
mod schedule;

pub use condition::{ConditionStatus, NodeCondition};
pub use publisher::ConditionPublisher;
