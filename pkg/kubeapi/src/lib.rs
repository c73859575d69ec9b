//! The connection to the Kubernetes API.
//!
//! [`connect`] returns a client if an API server is configured. All requests are wrapped in [`quietly`] or [`QuietStream`], because kube itself
//! logs every failure, with complete responses.

#![forbid(unsafe_code)]

mod access;
mod causes;
mod log_filter;
mod quiet_stream;

pub use access::{Error, connect, connect_with};
pub use causes::with_causes;
pub use kube::Client;
pub use log_filter::quietly;
pub use quiet_stream::QuietStream;
