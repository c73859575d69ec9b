//! The connection to the Kubernetes API.
//!
//! [`connect`] returns a client if an API server is configured. All requests are wrapped in [`quietly`], because kube itself
//! logs every failure, with complete responses.

#![forbid(unsafe_code)]

mod access;
mod causes;
mod log_filter;

pub use access::{Error, connect};
pub use causes::with_causes;
pub use kube::Client;
pub use log_filter::quietly;
