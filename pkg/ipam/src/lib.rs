//! Pools of addresses, which of them an attachment may use, and who has which address on this node.
//!
//! [`Pools`] reads what users write (`SpiderIPPool` objects), [`Pools::select`] says which pools a [`Request`]
//! may use and in which order, and [`LocalStore`] gives out their addresses. Only the reading of a directory,
//! with its index, and the store do I/O.

#![forbid(unsafe_code)]

mod document;
mod family;
mod index;
mod keys;
mod name;
mod pattern;
mod pool;
mod pools;
mod problem;
mod range;
mod ranges;
mod record;
mod remarks;
mod requested;
mod select;
mod selection;
mod spec;
mod status;
mod store;

pub use family::Family;
pub use index::Wanted;
pub use name::{InvalidPoolName, PoolName};
pub use pool::{Affinity, Pool, Route};
pub use pools::{Ignored, Pools, ReadError};
pub use problem::{InvalidPool, Problem};
pub use range::{InvalidRange, Range};
pub use ranges::Ranges;
pub use remarks::Remarks;
pub use requested::{Obstacle, Unavailable};
pub use selection::{Names, Namespace, Reason, Reasons, Request, SelectError, Selection, Skipped};
pub use store::{Claim, Header as MapHeader, LocalStore, MAX_ADDRESSES, Owner, Release, StoreError, Usage};
pub use yaml::InvalidYaml;
