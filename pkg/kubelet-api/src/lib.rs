//! The gRPC APIs of the kubelet, for both ends.
//!
//! The code is generated from `proto`, and `tests/generated.rs` compares them.

#![forbid(unsafe_code)]

#[allow(missing_docs, clippy::allow_attributes_without_reason, clippy::all, clippy::pedantic, reason = "generated")]
#[path = "generated/v1beta1.rs"]
#[rustfmt::skip]
pub mod deviceplugin;

#[allow(missing_docs, clippy::allow_attributes_without_reason, clippy::all, clippy::pedantic, reason = "generated")]
#[path = "generated/v1.rs"]
#[rustfmt::skip]
pub mod podresources;

/// The version of the device plugin API.
pub const DEVICE_PLUGIN_VERSION: &str = "v1beta1";
