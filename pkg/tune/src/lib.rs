//! Settings of a node that RDMA depends on: compared, set, taken back.
//!
//! A [`Profile`] says what should be, a [`Tuning`] finds what is and makes it so. What a setting was is remembered before
//! it is changed, and taken back only where it is still as we set it: whoever changed it since meant something.
//!
//! Only what RDMA depends on is here. Buffers of TCP, dropped caches and guessed routes help nobody's RDMA.

#![forbid(unsafe_code)]

mod change;
mod knob;
mod memory;
mod profile;
mod tuning;
mod wanted;

pub use change::{Change, Outcome};
pub use knob::Knob;
pub use memory::Memory;
pub use profile::{InvalidProfile, Profile};
pub use tuning::{Error, Tuning};
