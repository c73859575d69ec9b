//! Settings of a node that RDMA depends on: compared, applied and reverted.
//!
//! A [`TuneProfile`] contains the desired values; a [`Tuner`] compares them with the node and applies them. The former value
//! of a setting is saved before the setting is changed. A setting is reverted only if it still has the value that was
//! applied: a different value is a deliberate change by the administrator or another program.
//!
//! This crate covers only settings that RDMA depends on. TCP buffers, for example, do not affect RDMA.

#![forbid(unsafe_code)]

mod change;
mod desired_value;
mod error;
mod profile;
mod saved_settings;
mod setting;
mod tuner;

pub use change::{SettingChange, SettingOutcome};
pub use error::Error;
pub use profile::{InvalidProfile, TuneProfile};
pub use saved_settings::SavedSettings;
pub use setting::Setting;
pub use tuner::Tuner;
