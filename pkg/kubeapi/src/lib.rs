//! The connection to the Kubernetes API.
//!
//! [`connect`] returns a client if an API server is configured, and [`ObjectStore`] has the objects of a kind. All requests are wrapped in [`within`], [`quietly`] or [`QuietStream`], because kube itself
//! logs every failure, with complete responses.

#![forbid(unsafe_code)]

mod access;
mod causes;
mod log_filter;
mod object_store;
mod quiet_stream;
mod request;
mod watch_backoff;

pub use access::{Error, connect, connect_with};
pub use causes::with_causes;
pub use kube::Client;
pub use log_filter::quietly;
pub use object_store::ObjectStore;
pub use quiet_stream::QuietStream;
pub use request::{RequestError, within};
pub use watch_backoff::WatchBackoff;
