//! Pools of addresses, which of them an attachment may use, and who has which address on this node.
//!
//! [`Pools`] reads what users write (`SpiderIPPool` objects), [`Pools::select`] says which pools a [`PoolRequest`]
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

pub use family::IpFamily;
pub use index::PoolQuery;
pub use name::{InvalidPoolName, PoolName};
pub use pool::{Pool, PoolAffinity, PoolRoute};
pub use pools::{IgnoredDocument, PoolReadError, Pools};
pub use problem::{InvalidPool, InvalidValue};
pub use range::{InvalidIpRange, IpRange};
pub use ranges::IpRanges;
pub use remarks::PoolWarnings;
pub use requested::{AddressUnavailable, UnavailableReason};
pub use selection::{
    NameList, PodNamespace, PoolRequest, PoolSelection, SelectError, SkipReason, SkipReasons, SkippedPool,
};
pub use store::{
    AddressClaim, ClaimOwner, LocalStore, MAX_ADDRESSES, MapHeader, PoolUsage, ReleaseOutcome, StoreError,
};
pub use yaml::InvalidYaml;
