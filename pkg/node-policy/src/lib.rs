//! What the networks of pods may take of a node: `/etc/silkrail/policy.yaml`.
//!
//! The author of a network need not be the administrator of the node. A plugin states what an ADD takes, as [`ResourceUses`], and
//! [`NodePolicy::require`] judges them by the first rule that is for the pod's namespace. Without the file, everything is allowed.

#![forbid(unsafe_code)]

mod error;
mod policy;
mod resource;
mod rule;

pub use error::PolicyError;
pub use policy::NodePolicy;
pub use resource::{Resource, ResourceUses};
