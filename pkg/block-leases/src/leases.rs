//! The steps of a lease. They are not run concurrently: a node has one daemon, and `&mut self` serializes its steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipam::{BlockSize, IpBlock, StoreError};

use crate::{ApiError, BlockApi, BlockContent, BlockOwner, BlockRecord, NodeBlocks, remove_record};

/// The blocks that a node has leased.
#[derive(Debug)]
pub struct BlockLeases<A, N> {
    api: A,
    node: N,
    owner: BlockOwner,
    /// The records of the blocks that the node offers, and of those that are terminating, as last read.
    records: BTreeMap<IpBlock, BlockRecord>,
    /// Of these, the blocks that are not offered because their parent is not valid any more, but whose addresses are in use.
    unoffered: BTreeSet<IpBlock>,
    /// The records of parents with the size of their blocks. A record is read again before a lease depends on it.
    parents: BTreeMap<IpBlock, BlockRecord>,
}

/// The result of an attempt to lease a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The node has the block.
    Leased,
    /// Another node has it, or it is terminating: try another block.
    Taken,
    /// The addresses are divided into blocks of this size: try one of them.
    OtherSize(BlockSize),
}

/// The result of an attempt to release a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The node does not have the block any more.
    Released,
    /// These addresses are in use: the node keeps the block.
    InUse(Vec<IpAddr>),
}

/// What [`BlockLeases::sync`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Blocks that were offered without a lease. They are not offered any more.
    pub lost: Vec<LostBlock>,
    /// Blocks that are terminating, with the addresses that are still in use.
    pub draining: Vec<(IpBlock, Vec<IpAddr>)>,
}

/// A block that was offered without a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostBlock {
    /// The block.
    pub block: IpBlock,
    /// Its addresses that are in use. Another node may use them, too.
    pub in_use: Vec<IpAddr>,
    /// The node that has leased it since.
    pub owner: Option<BlockOwner>,
}

/// A lease cannot be made, ended or read. The next [`BlockLeases::sync`] corrects what was left.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server.
    #[error("failed to {request} IPBlock {block}: {error}")]
    Api {
        /// The request.
        request: &'static str,
        /// The block.
        block: IpBlock,
        /// The error.
        error: ApiError,
    },
    /// The API server, for the list.
    #[error("failed to list the IPBlocks of this node: {0}")]
    List(ApiError),
    /// The store of the node.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<A: BlockApi, N: NodeBlocks> BlockLeases<A, N> {
    /// Returns the leases of a node; none until [`BlockLeases::sync`].
    pub fn new(api: A, node: N, owner: BlockOwner) -> Self {
        Self {
            api,
            node,
            owner,
            records: BTreeMap::new(),
            unoffered: BTreeSet::new(),
            parents: BTreeMap::new(),
        }
    }

    /// Returns the blocks that the node offers, sorted.
    pub fn blocks(&self) -> impl Iterator<Item = IpBlock> {
        let is_offered =
            |record: &&BlockRecord| !record.is_terminating && !self.unoffered.contains(&record.block);
        self.records.values().filter(is_offered).map(|record| record.block)
    }

    /// Returns the store of the node.
    pub fn node(&self) -> &N {
        &self.node
    }

    /// Changes the UID under which blocks are leased, after the node's object was created again. [`BlockLeases::sync`] changes
    /// that of the blocks that the node offers.
    pub fn set_owner(&mut self, owner: BlockOwner) {
        self.owner = owner;
    }

    /// Tries to lease a block that the node does not have.
    ///
    /// # Errors
    /// [`LeaseError`].
    pub async fn lease(&mut self, block: IpBlock) -> Result<LeaseOutcome, LeaseError> {
        if let Some(record) = self.records.get(&block) {
            let is_offered = !record.is_terminating && !self.unoffered.contains(&block);
            return Ok(if is_offered { LeaseOutcome::Leased } else { LeaseOutcome::Taken });
        }
        if block != block.parent() {
            match self.parent_size(block).await? {
                Some(size) if size == block.size() => {}
                Some(size) => return Ok(LeaseOutcome::OtherSize(size)),
                None => return Ok(LeaseOutcome::Taken),
            }
        }
        let content = BlockContent::Leased(self.owner.clone());
        let record = match self.api.create(block, &content).await {
            Ok(record) => record,
            // Perhaps by a request of this node whose response was lost.
            Err(ApiError::Exists | ApiError::Unknown(_)) => match self.get(block).await? {
                Some(record) if record.is_of(&self.owner) && !record.is_terminating => record,
                Some(BlockRecord { content: BlockContent::Parent(size), is_terminating: false, .. }) => {
                    return Ok(LeaseOutcome::OtherSize(size));
                }
                _ => return Ok(LeaseOutcome::Taken),
            },
            Err(ApiError::Invalid(_)) => return Ok(LeaseOutcome::Taken),
            Err(error) => return Err(LeaseError::Api { request: "create", block, error }),
        };
        self.offer_confirmed(record).await
    }

    /// Tries to release a block.
    ///
    /// # Errors
    /// [`LeaseError`]: it is unknown whether the node still has the block. It is not offered.
    pub async fn release(&mut self, block: IpBlock) -> Result<ReleaseOutcome, LeaseError> {
        // If this fails, only sync knows what became of the block.
        let record = self.records.remove(&block);
        let in_use = self.node.withdraw(block).await?;
        if in_use.is_empty() {
            self.remove(block).await?;
            return Ok(ReleaseOutcome::Released);
        }
        if let Some(record) = record {
            if !record.is_terminating {
                self.node.offer(block).await?;
            }
            self.records.insert(block, record);
        }
        Ok(ReleaseOutcome::InUse(in_use))
    }

    /// Compares the records of the cluster with the blocks that the node offers, and makes them agree. To be called when the
    /// daemon starts, after an error, and from time to time.
    ///
    /// # Errors
    /// The first [`LeaseError`]; the other blocks are handled nevertheless.
    pub async fn sync(&mut self) -> Result<SyncReport, LeaseError> {
        let mut report = SyncReport::default();
        let offered = self.node.offered().await?;
        let withdrawn = self.node.withdrawn().await?;
        let listed = self.api.owned(&self.owner).await.map_err(LeaseError::List)?;
        let mut blocks: Vec<_> = listed.iter().map(|record| record.block).collect();
        blocks.extend(offered.iter().chain(&withdrawn).chain(self.records.keys()));
        blocks.sort_unstable();
        blocks.dedup();
        let mut first_error = None;
        for block in blocks {
            let (is_offered, is_withdrawn) = (offered.contains(&block), withdrawn.contains(&block));
            let synced = match listed.iter().find(|record| record.block == block) {
                // No request is needed for what is as it was.
                Some(record) if is_offered && !record.is_terminating => {
                    self.records.insert(block, record.clone());
                    Ok(())
                }
                Some(record) if record.is_terminating => self.drain(record.clone(), &mut report).await,
                _ => self.sync_block(block, is_offered, is_offered || is_withdrawn, &mut report).await,
            };
            first_error = first_error.or(synced.err());
        }
        first_error.map_or(Ok(report), Err)
    }

    /// Changes the version of all records, so that others can see that the node is alive although its object does not exist.
    ///
    /// # Errors
    /// The first [`LeaseError`]; the other blocks are handled nevertheless.
    pub async fn renew_all(&mut self) -> Result<(), LeaseError> {
        let mut first_error = None;
        for record in self.records.clone().into_values() {
            match self.renew(&record).await {
                Ok(renewed) => drop(self.records.insert(renewed.block, renewed)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Handles a block whose record must be read. `is_held`: this machine has had it since it was booted.
    async fn sync_block(
        &mut self,
        block: IpBlock,
        is_offered: bool,
        is_held: bool,
        report: &mut SyncReport,
    ) -> Result<(), LeaseError> {
        let record = match self.get(block).await? {
            Some(record) if record.is_of(&self.owner) => record,
            // The node's object was created again since.
            Some(record) if is_held && self.is_former(&record) => self.renew(&record).await?,
            other => {
                self.records.remove(&block);
                return if is_held { self.lose(block, other, report).await } else { Ok(()) };
            }
        };
        if record.is_terminating {
            return self.drain(record, report).await;
        }
        if is_offered {
            self.records.insert(block, record);
            return Ok(());
        }
        self.offer_confirmed(record).await?;
        if self.unoffered.contains(&block) {
            report.draining.push((block, self.node.withdraw(block).await?));
        }
        Ok(())
    }

    /// Removes the record of a terminating block as soon as none of its addresses is in use.
    async fn drain(&mut self, record: BlockRecord, report: &mut SyncReport) -> Result<(), LeaseError> {
        let block = record.block;
        let in_use = self.node.withdraw(block).await?;
        if in_use.is_empty() {
            return self.remove(block).await;
        }
        self.records.insert(block, record);
        report.draining.push((block, in_use));
        Ok(())
    }

    /// Handles a block that this machine has had, and whose record is gone or of another node.
    async fn lose(
        &mut self,
        block: IpBlock,
        record: Option<BlockRecord>,
        report: &mut SyncReport,
    ) -> Result<(), LeaseError> {
        let in_use = self.node.withdraw(block).await?;
        if in_use.is_empty() {
            return Ok(self.node.forget(block).await?);
        }
        // Nobody has leased it since: its addresses stay in use, so the node leases it again.
        if record.is_none() && self.lease(block).await? == LeaseOutcome::Leased {
            return Ok(());
        }
        report.lost.push(LostBlock { block, in_use, owner: record.and_then(BlockRecord::owner) });
        Ok(())
    }

    /// Whether a node with the same name but another UID has leased the block.
    fn is_former(&self, record: &BlockRecord) -> bool {
        matches!(&record.content, BlockContent::Leased(owner) if owner.node == self.owner.node)
    }

    /// Changes the owner of a record to this node, and its version in any case.
    async fn renew(&mut self, record: &BlockRecord) -> Result<BlockRecord, LeaseError> {
        let block = record.block;
        let renewed = self.api.renew(block, &record.version, &self.owner).await;
        renewed.map_err(|error| LeaseError::Api { request: "renew", block, error })
    }

    /// Offers a leased block if its parent is still valid, else releases it.
    async fn offer_confirmed(&mut self, record: BlockRecord) -> Result<LeaseOutcome, LeaseError> {
        let (block, parent) = (record.block, record.block.parent());
        if block != parent {
            let current = self.get(parent).await?;
            let is_valid = |record: &BlockRecord| {
                !record.is_terminating && record.content == BlockContent::Parent(block.size())
            };
            if !current.as_ref().is_some_and(is_valid) {
                self.parents.remove(&parent);
                if self.node.withdraw(block).await?.is_empty() {
                    self.remove(block).await?;
                } else {
                    self.unoffered.insert(block);
                    self.records.insert(block, record);
                }
                return Ok(LeaseOutcome::Taken);
            }
        }
        self.node.offer(block).await?;
        self.unoffered.remove(&block);
        self.records.insert(block, record);
        Ok(LeaseOutcome::Leased)
    }

    /// Returns the size of the blocks into which the parent of a block is divided, and divides it if it is not; `None` if it
    /// is leased as a whole, or terminating.
    async fn parent_size(&mut self, block: IpBlock) -> Result<Option<BlockSize>, LeaseError> {
        let parent = block.parent();
        let known = match self.parents.get(&parent) {
            Some(known) => Some(known.clone()),
            None => self.get(parent).await?,
        };
        let record = match known {
            Some(record) => record,
            None => match self.api.create(parent, &BlockContent::Parent(block.size())).await {
                Ok(record) => record,
                Err(ApiError::Exists | ApiError::Unknown(_)) => match self.get(parent).await? {
                    Some(record) => record,
                    None => return Ok(None),
                },
                Err(error) => return Err(LeaseError::Api { request: "create", block: parent, error }),
            },
        };
        let BlockContent::Parent(size) = record.content else { return Ok(None) };
        if record.is_terminating {
            return Ok(None);
        }
        self.parents.insert(parent, record);
        Ok(Some(size))
    }

    /// Removes the record of a block that is not offered, and of which no address is in use.
    async fn remove(&mut self, block: IpBlock) -> Result<(), LeaseError> {
        if let Some(record) = self.get(block).await?.filter(|record| record.is_of(&self.owner)) {
            let removed = remove_record(&self.api, &record).await;
            removed.map_err(|error| LeaseError::Api { request: "delete", block, error })?;
        }
        self.records.remove(&block);
        self.unoffered.remove(&block);
        Ok(self.node.forget(block).await?)
    }

    /// Returns the record of a block; `None` also if it cannot be one of this program.
    async fn get(&self, block: IpBlock) -> Result<Option<BlockRecord>, LeaseError> {
        match self.api.get(block).await {
            Err(ApiError::Invalid(_)) => Ok(None),
            got => got.map_err(|error| LeaseError::Api { request: "get", block, error }),
        }
    }
}

#[cfg(test)]
mod tests;
