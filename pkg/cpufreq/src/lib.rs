//! The CPU frequency governors of a node (cpufreq).
//!
//! A test sets them to `performance` and restores them after it ([`Governors::hold`]). The former values are saved in a file
//! before any governor is changed: if the test is killed, the file remains, and the next test or `silkrail check restore`
//! restores the values in it. `silkrail tune` configures them for good ([`Governors::configure`]), also while a test holds
//! them: then the value is written to the file, and the end of the test brings it into effect.

#![forbid(unsafe_code)]

mod error;
mod governors;
mod hold;
mod saved;

pub use error::Error;
pub use governors::Governors;
pub use hold::{GovernorGuard, GovernorOutcome, PERFORMANCE};

#[cfg(test)]
mod tests;
