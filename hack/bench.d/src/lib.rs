//! Common code of the measurements of `hack/bench`.

#![forbid(unsafe_code)]

pub mod race;
pub mod secure;
