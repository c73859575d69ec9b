//! NetworkAttachmentDefinitions from `SpiderMultusConfig` documents of Spiderpool (`v2beta1`).
//!
//! [`SpiderMultusConfigs::parse`] reads documents, and [`NetworkAttachment::of`] returns what Spiderpool's controller makes of one:
//! the same chain of plugins with the same values, or one that needs no program of Spiderpool on the node ([`Target`]).

#![forbid(unsafe_code)]

mod annotations;
mod chain;
mod cni_type;
mod config;
mod document;
mod error;
mod fields;
mod network_attachment;
mod target;

pub use cni_type::CniType;
pub use config::SpiderMultusConfig;
pub use document::{IgnoredDocument, SpiderMultusConfigs};
pub use error::InvalidDocument;
pub use network_attachment::NetworkAttachment;
pub use target::Target;
