//! What the measurements of `hack/bench` share.

#![forbid(unsafe_code)]

pub mod race;
pub mod secure;
