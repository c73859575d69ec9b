//! The blocks that the node offers to its plugins.

use std::net::IpAddr;

use ipam::{IpBlock, LocalStore, StoreError};

/// The blocks from which the plugins of the node take addresses.
#[allow(async_fn_in_trait, reason = "as in BlockApi")]
pub trait NodeBlocks {
    /// Returns the offered blocks.
    async fn offered(&self) -> Result<Vec<IpBlock>, StoreError>;

    /// Offers a block to plugins. Succeeds if it is offered already.
    async fn offer(&self, block: IpBlock) -> Result<(), StoreError>;

    /// Returns the blocks that were offered, and are withdrawn but not forgotten.
    async fn withdrawn(&self) -> Result<Vec<IpBlock>, StoreError>;

    /// Forgets a withdrawn block.
    async fn forget(&self, block: IpBlock) -> Result<(), StoreError>;

    /// Ends the offer, and returns the addresses of the block that are in use. If there are none, none will be used.
    async fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError>;
}

impl NodeBlocks for LocalStore {
    async fn offered(&self) -> Result<Vec<IpBlock>, StoreError> {
        self.blocks()
    }

    async fn offer(&self, block: IpBlock) -> Result<(), StoreError> {
        Self::offer(self, block)
    }

    async fn withdrawn(&self) -> Result<Vec<IpBlock>, StoreError> {
        Self::withdrawn(self)
    }

    async fn forget(&self, block: IpBlock) -> Result<(), StoreError> {
        Self::forget(self, block)
    }

    async fn withdraw(&self, block: IpBlock) -> Result<Vec<IpAddr>, StoreError> {
        Self::withdraw(self, block)
    }
}
