//! Keeps NetworkAttachmentDefinitions in step with `SpiderMultusConfig` objects, as Spiderpool's controller does.
//!
//! [`NetworkController`] watches both kinds. What is to be changed is decided in `plan`, which does no I/O.

#![forbid(unsafe_code)]

mod controller;
mod object_key;
mod plan;
mod report;

pub use controller::NetworkController;
