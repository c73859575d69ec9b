//! RDMA bandwidth and latency tests between two nodes, or between all pairs of several nodes.
//!
//! An [`agent`] on one node and a [`client`] on another speak a small [protocol] of their own. Over it they select devices
//! and [GIDs](gid_selection), start the two ends of [perftest], compare the ports' [counters](port_counters), and produce a
//! [`test_result::TestResult`] with a [verdict]. A test that could not run is an [`Error`], never a result of 0.
//!
//! No value from the network becomes part of a command line unchecked: see [`test_spec`].

#![forbid(unsafe_code)]

pub mod agent;
pub mod candidate_port;
pub mod client;
pub mod collective;
pub mod comparison;
mod error;
pub mod exposition;
pub mod gid_selection;
pub mod history_page;
mod interrupt;
pub mod local_end;
pub mod mesh;
pub mod node_port;
pub mod perftest;
pub mod port_counters;
pub mod port_reservation;
pub mod port_selection;
pub mod probe;
pub mod protocol;
pub mod result_store;
pub mod sanitized_text;
#[cfg(test)]
mod simulated_node;
pub mod start_line;
mod sysfs_copy;
mod test_kind;
pub mod test_result;
pub mod test_spec;
pub mod verdict;

pub use error::Error;
pub use interrupt::Interrupt;
pub use test_kind::{InvalidRdmaOperation, RdmaOperation, TestKind};
pub use test_spec::{
    DeviceName, GpuIndex, InvalidTestSpec, Iterations, PortNumber, PortSelector, QueuePairs, Seconds,
    ServiceLevel, Size, TestSpec, TrafficClass, TrafficOptions,
};
