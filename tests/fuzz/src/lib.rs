//! Fuzz targets: functions of bytes that must end, whatever the bytes are, without a panic.
//!
//! Each reads with the code that the plugins read with, and asserts beside it what must hold of whatever was
//! read: mostly that it is written as it was read. [`TARGETS`] is the table. The corpus is replayed by an
//! ordinary test (`tests/replay.rs`); `hack/fuzz` looks for new inputs.
//!
//! A target writes nothing: it may run as root on the machine of whoever starts the tests.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a target that fails panics")]

mod targets;

pub use targets::TARGETS;

/// A target: its name, and what it does with an input.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The target of that name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|(known, _)| *known == name)
}
