//! The CNI protocol, versions 0.1.0 to 1.1.0, without I/O.
//!
//! A plugin implements [`Plugin`]. [`serve()`] reads the environment and standard input, checks them in the
//! same order and with the same error messages as the reference implementation, calls the plugin and writes
//! one JSON object. The environment and the streams are arguments, so tests need no process.
//!
//! Specification: <https://github.com/containernetworking/cni/blob/main/SPEC.md>.

#![forbid(unsafe_code)]

mod args;
mod conf;
mod conf_object;
mod environment;
mod error;
mod error_object;
mod json;
mod operation;
mod plugin;
mod request;
mod result;
mod serve;
mod version;

pub use args::CniArgs;
pub use conf::NetConf;
pub use conf_object::ConfObject;
pub use error::{Error, ErrorCode};
pub use operation::Operation;
pub use plugin::Plugin;
pub use request::{
    AddRequest, AttachmentRequest, CallContext, CheckRequest, DelRequest, GcRequest, StatusRequest,
};
pub use result::{AddResult, Dns, IpConfig, ResultInterface, ResultRoute};
pub use serve::{CallIo, CallOutcome, serve};
pub use version::Version;
