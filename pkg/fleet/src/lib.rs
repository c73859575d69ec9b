//! Reads the daemons of many nodes and finds what differs between them.
//!
//! ```text
//! NodeAddress ── DaemonClient ── NodeReport ─┐
//! NodeAddress ── DaemonClient ── NodeReport ─┴─ FleetReport
//! ```
//!
//! A node is read with one request, `/api/v1/node` of silkraild, within a time limit; [`read_all`] limits how many requests there are at
//! the same time. A reply is reduced to the properties that are compared, so that the memory does not depend on its size.

#![forbid(unsafe_code)]

mod daemon_client;
mod fleet_reading;
mod fleet_report;
mod http_reply;
mod node_address;
mod node_report;
mod property;
mod tls_files;

pub use daemon_client::{DaemonClient, FetchError};
pub use fleet_reading::{NodeReading, read_all};
pub use fleet_report::{DifferentValue, FindingSpread, FleetReport, PropertyDifference, UnreachableNode};
pub use node_address::{InvalidNodeAddress, NodeAddress};
pub use node_report::{InvalidNodeReport, NodeFinding, NodeReport};
pub use property::Property;
pub use tls_files::{TlsFileError, TlsFiles};
