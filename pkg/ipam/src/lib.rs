//! Address pools, their selection for an attachment, and the store of address claims of a node.
//!
//! [`Pools`] parses `SpiderIPPool` objects. [`Pools::select`] returns the pools that a [`PoolRequest`] can use, in the
//! order in which they are tried. [`LocalStore`] allocates their addresses. Only the store and the reading of a directory
//! with its index do I/O.

#![forbid(unsafe_code)]

mod agent_request;
mod block;
mod document;
mod index_record;
mod invalid_value;
mod ip_family;
mod ip_range;
mod ip_ranges;
mod keys;
mod name;
mod pod_pools;
mod pool;
mod pool_blocks;
mod pool_entry;
mod pool_file_name;
mod pool_index;
mod pool_list_source;
mod pool_read_error;
mod pool_selection;
mod pool_warnings;
mod pools;
mod requested_address;
mod select_pools;
mod skipped_pool;
mod spec;
mod status;
mod store;

pub use agent_request::{AgentRequest, AgentRequestError};
pub use block::{BlockSize, InvalidBlockName, InvalidBlockSize, IpBlock};
pub use invalid_value::{InvalidPool, InvalidValue};
pub use ip_family::IpFamily;
pub use ip_range::{InvalidIpRange, IpRange};
pub use ip_ranges::IpRanges;
pub use name::{InvalidPoolName, PoolName};
pub use pod_pools::{ListedPools, PodPoolLists, PodPools, PodPoolsError, ReservedAddress, SelectingPools};
pub use pool::{Pool, PoolAffinity, PoolRoute};
pub use pool_blocks::PoolBlocks;
pub use pool_index::PoolQuery;
pub use pool_list_source::PoolListSource;
pub use pool_read_error::PoolReadError;
pub use pool_selection::{NameList, PodLabels, PodNamespace, PoolRequest, PoolSelection, SelectError};
pub use pool_warnings::PoolWarnings;
pub use pools::{IgnoredDocument, Pools};
pub use requested_address::{AddressUnavailable, UnavailableReason};
pub use skipped_pool::{SkipReason, SkipReasons, SkippedPool};
pub use store::{
    AddressClaim, ClaimOwner, LocalStore, MAX_ADDRESSES, MapHeader, ReleaseOutcome, StoreError,
    usage::PoolUsage,
};
pub use yaml::InvalidYaml;
