//! RDMA tests between two nodes, and between all pairs of many: how much goes through, and how long it takes.
//!
//! An [`agent`] on one node and a [`client`] on another speak a small [protocol] of their own, over which they choose
//! devices and [GIDs](gid), start the two ends of [perftest], compare what the ports' [counters] counted, and come to a
//! [`record::TestResult`] with a [verdict]. A test that could not be done is an [`Error`], never a result of 0.
//!
//! Nothing from the network becomes part of a command unchecked: see [`mod@test`].

#![forbid(unsafe_code)]

pub mod agent;
pub mod client;
pub mod collective;
pub mod compare;
pub mod counters;
mod error;
pub mod exposition;
pub mod gid;
pub mod governor;
mod interrupt;
mod kind;
pub mod label;
pub mod mesh;
pub mod node;
pub mod page;
pub mod perftest;
pub mod protocol;
pub mod record;
pub mod select;
pub mod session;
pub mod store;
pub mod test;
pub mod verdict;

pub use error::Error;
pub use interrupt::Interrupt;
pub use kind::{InvalidRdmaOperation, RdmaOperation, TestKind};
pub use test::{DeviceName, InvalidTestSpec, PortNumber, PortSelector, QueuePairs, Seconds, Size, TestSpec};
