//! The requests to the cluster.

use ipam::IpBlock;

use crate::{BlockContent, BlockOwner, BlockRecord, RecordVersion};

/// The records of all blocks of the cluster. Each request is executed at one instant, and reads return what was last written,
/// except [`BlockApi::owned`].
#[allow(async_fn_in_trait, reason = "the futures need not be Send: a daemon and the tests use one thread")]
pub trait BlockApi {
    /// Creates a record with the finalizer. Fails with [`ApiError::Exists`] if there is one, even if it is terminating.
    async fn create(&self, block: IpBlock, content: &BlockContent) -> Result<BlockRecord, ApiError>;

    /// Returns the record of a block.
    async fn get(&self, block: IpBlock) -> Result<Option<BlockRecord>, ApiError>;

    /// Returns the records of a node. They may be outdated by any time.
    async fn owned(&self, node: &BlockOwner) -> Result<Vec<BlockRecord>, ApiError>;

    /// Returns the records of all blocks of a parent, without its own.
    async fn children(&self, parent: IpBlock) -> Result<Vec<BlockRecord>, ApiError>;

    /// Marks a record as terminating and returns it. Fails with [`ApiError::Changed`] unless the record has this version.
    async fn terminate(&self, block: IpBlock, version: &RecordVersion) -> Result<BlockRecord, ApiError>;

    /// Removes the finalizer, and thereby a record that is terminating. Fails with [`ApiError::Changed`] unless the record has
    /// this version.
    async fn remove(&self, block: IpBlock, version: &RecordVersion) -> Result<(), ApiError>;

    /// Changes the owner of a record, or only its version if `owner` has leased it already. Fails with [`ApiError::Changed`]
    /// unless the record has this version.
    async fn renew(
        &self,
        block: IpBlock,
        version: &RecordVersion,
        owner: &BlockOwner,
    ) -> Result<BlockRecord, ApiError>;
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The record exists already.
    #[error("it exists already")]
    Exists,
    /// The record does not exist.
    #[error("it does not exist")]
    Missing,
    /// The record has another version.
    #[error("it was changed meanwhile")]
    Changed,
    /// There is a record, but someone else has written it, and it contradicts itself.
    #[error("{0}")]
    Invalid(String),
    /// The request was refused and has no effect.
    #[error("{0}")]
    Refused(String),
    /// It is not known whether the request was executed or will be.
    #[error("{0}")]
    Unknown(String),
}
