//! The removal of records that no node removes.

use crate::{ApiError, BlockApi, BlockContent, BlockRecord};

/// Removes the record of a block of which no address is used any more, nor will be. Succeeds if it is gone.
///
/// # Errors
/// [`ApiError::Changed`] if it was changed since it was read, for example by a node that was thought to be gone. It stays.
pub async fn remove_record(api: &impl BlockApi, record: &BlockRecord) -> Result<(), ApiError> {
    let block = record.block;
    let terminating = match api.terminate(block, &record.version).await {
        Err(ApiError::Missing) => return Ok(()),
        terminating => terminating?,
    };
    match api.remove(block, &terminating.version).await {
        Err(ApiError::Missing) => Ok(()),
        removed => removed,
    }
}

/// Removes a record if it is the terminating one of a parent that has no blocks. Returns whether it was removed.
///
/// # Errors
/// [`ApiError`].
pub async fn remove_parent(api: &impl BlockApi, record: &BlockRecord) -> Result<bool, ApiError> {
    // A node reads the parent after it has created a block of it. If its block is not listed here, the node will find that the
    // parent is terminating.
    let is_parent = matches!(record.content, BlockContent::Parent(_));
    if !is_parent || !record.is_terminating || !api.children(record.block).await?.is_empty() {
        return Ok(false);
    }
    match api.remove(record.block, &record.version).await {
        Ok(()) | Err(ApiError::Missing) => Ok(true),
        Err(error) => Err(error),
    }
}
