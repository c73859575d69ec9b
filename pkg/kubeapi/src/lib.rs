//! The way to the Kubernetes API.
//!
//! [`connect`] finds the API server, if there is one. Whatever is asked there is asked [`quietly`]: kube's own log has a line
//! for each failure, and whole answers.

#![forbid(unsafe_code)]

mod access;
mod causes;
mod log_filter;

pub use access::{Error, connect};
pub use causes::with_causes;
pub use kube::Client;
pub use log_filter::quietly;
