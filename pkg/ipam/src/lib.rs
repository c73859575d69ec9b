//! Pools of addresses, which of them an attachment may use, and who has which address on this node.
//!
//! [`Pools`] reads what users write (`SpiderIPPool` objects), [`Pools::select`] says which pools a [`PoolRequest`]
//! may use and in which order, and [`LocalStore`] gives out their addresses. Only the reading of a directory,
//! with its index, and the store do I/O.

#![forbid(unsafe_code)]

mod document;
mod index_record;
mod invalid_value;
mod ip_family;
mod ip_range;
mod ip_ranges;
mod keys;
mod name;
mod pattern;
mod pool;
mod pool_index;
mod pool_selection;
mod pool_warnings;
mod pools;
mod requested_address;
mod select_pools;
mod spec;
mod status;
mod store;

pub use invalid_value::{InvalidPool, InvalidValue};
pub use ip_family::IpFamily;
pub use ip_range::{InvalidIpRange, IpRange};
pub use ip_ranges::IpRanges;
pub use name::{InvalidPoolName, PoolName};
pub use pool::{Pool, PoolAffinity, PoolRoute};
pub use pool_index::PoolQuery;
pub use pool_selection::{
    NameList, PodNamespace, PoolRequest, PoolSelection, SelectError, SkipReason, SkipReasons, SkippedPool,
};
pub use pool_warnings::PoolWarnings;
pub use pools::{IgnoredDocument, PoolReadError, Pools};
pub use requested_address::{AddressUnavailable, UnavailableReason};
pub use store::{
    AddressClaim, ClaimOwner, LocalStore, MAX_ADDRESSES, MapHeader, PoolUsage, ReleaseOutcome, StoreError,
};
pub use yaml::InvalidYaml;
