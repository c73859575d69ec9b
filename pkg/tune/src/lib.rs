//! Settings of a node that RDMA depends on: compared, set, taken back.
//!
//! A [`TuneProfile`] says what should be, a [`Tuner`] finds what is and makes it so. What a setting was is remembered before
//! it is changed, and taken back only where it is still as we set it: whoever changed it since meant something.
//!
//! Only what RDMA depends on is here. Buffers of TCP, dropped caches and guessed routes help nobody's RDMA.

#![forbid(unsafe_code)]

mod change;
mod desired_value;
mod profile;
mod saved_settings;
mod setting;
mod tuner;

pub use change::{SettingChange, SettingOutcome};
pub use profile::{InvalidProfile, TuneProfile};
pub use saved_settings::SavedSettings;
pub use setting::Setting;
pub use tuner::{Error, Tuner};
