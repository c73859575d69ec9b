//! Fuzz targets: functions of bytes that must return without a panic for any input.
//!
//! Each target calls the production parser, and asserts properties of the parsed data, mostly that it survives a
//! round trip. [`TARGETS`] is the table. An ordinary test (`tests/replay.rs`) replays the corpus; `hack/fuzz`
//! searches for new inputs.
//!
//! A target writes nothing, because it may run as root on a developer's machine.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a target that fails panics")]

mod targets;

pub use targets::TARGETS;

/// The name of a target, and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// Returns the target of this name, if it exists.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|(known, _)| *known == name)
}
