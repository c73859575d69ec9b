//! The choice of the blocks that are leased for a pool.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};

use block_leases::{BlockLeases, LeaseError, LeaseOutcome, ReleaseOutcome, SyncReport, candidates};
use ipam::{BlockSize, IpBlock, LocalStore, PoolBlocks, PoolName};

use crate::{KubeBlocks, pool_directory::ClusterPool};

/// The number of blocks that are tried without knowing which are leased.
const GUESSES: usize = 4;
/// The number of blocks that are compared with a list of those that are leased.
const MOST_COMPARED: usize = 1 << 16;
/// How long it is remembered that a pool has no block left, or that an address cannot be leased, if an ADD waits.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The same if the block has this address only: it is released as soon as the address is.
const REMEMBERED_IF_ALONE: Duration = Duration::from_millis(900);
/// How long it is remembered that a pool has no block left, if an ADD can use another pool.
const REMEMBERED_WITH_ANOTHER: Duration = Duration::from_secs(60);
/// How long it is remembered that a pool has no block left, if none waits: nodes only want a reserve.
const REMEMBERED_BY_IDLE: Duration = Duration::from_secs(120);

/// What is known about a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PoolOutcome {
    /// The node has a free address of it.
    HasRoom,
    /// All of its blocks are leased, and the node has no free address.
    Exhausted(String),
    /// Neither.
    Unknown,
}

/// What is known about an address for which an ADD waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressOutcome {
    /// The node has its block.
    Leased,
    /// Another node has its block.
    Taken {
        /// The text for the plugin.
        problem: String,
        /// Whether the block has no other address, so that it is released with this one.
        is_alone: bool,
    },
}

/// The leases of the node, by pool.
#[derive(Debug)]
pub(crate) struct PoolLeases {
    api: KubeBlocks,
    leases: BlockLeases<KubeBlocks, LocalStore>,
    uid: String,
    is_synced: bool,
    exhausted: BTreeMap<PoolName, ExhaustedPool>,
    /// The addresses that other nodes have, with the time until which that is assumed.
    addresses: BTreeMap<IpAddr, (Instant, AddressOutcome)>,
    /// All blocks that nodes have leased, when they were last listed.
    leased: Option<(Instant, LeasedBlocks)>,
}

/// A pool of which no block was left.
#[derive(Debug)]
struct ExhaustedPool {
    since: Instant,
    /// The part by which this node waits longer than others.
    jitter: f64,
    text: String,
}

/// Blocks, by their parents.
#[derive(Debug, Default)]
struct LeasedBlocks(HashMap<IpBlock, Vec<IpBlock>>);

impl LeasedBlocks {
    fn of(blocks: impl IntoIterator<Item = IpBlock>) -> Self {
        let mut leased = Self::default();
        for block in blocks {
            leased.0.entry(block.parent()).or_default().push(block);
        }
        leased
    }

    fn overlaps(&self, block: IpBlock) -> bool {
        self.0.get(&block.parent()).is_some_and(|leased| leased.iter().any(|leased| leased.overlaps(block)))
    }

    /// Returns the number of blocks that have an address of the pool.
    fn count(&self, blocks: &PoolBlocks) -> usize {
        self.0.values().flatten().filter(|block| blocks.overlaps(**block)).count()
    }
}

impl PoolLeases {
    pub(crate) fn new(api: KubeBlocks, leases: BlockLeases<KubeBlocks, LocalStore>, uid: String) -> Self {
        Self {
            api,
            leases,
            uid,
            is_synced: false,
            exhausted: BTreeMap::new(),
            addresses: BTreeMap::new(),
            leased: None,
        }
    }

    pub(crate) fn store(&self) -> &LocalStore {
        self.leases.node()
    }

    pub(crate) fn blocks(&self) -> Vec<IpBlock> {
        self.leases.blocks().collect()
    }

    /// Whether the leases of the node were compared with the cluster.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced
    }

    pub(crate) async fn sync(&mut self) -> Result<SyncReport, LeaseError> {
        let synced = self.leases.sync().await;
        // Without the list nothing is known; what failed after it is a matter of single blocks.
        self.is_synced |= !matches!(synced, Err(LeaseError::List(_)));
        self.addresses.retain(|_, (until, _)| Instant::now() < *until);
        synced
    }

    pub(crate) async fn renew_all(&mut self) -> Result<(), LeaseError> {
        self.leases.renew_all().await
    }

    pub(crate) async fn release(&mut self, block: IpBlock) -> Result<(), String> {
        match self.leases.release(block).await {
            Ok(ReleaseOutcome::Released) => tracing::info!("IPBlock {block} is released"),
            Ok(ReleaseOutcome::InUse(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Leases a number of blocks of a pool, or all that are left.
    ///
    /// # Errors
    /// If it is unknown whether a block can be leased.
    pub(crate) async fn lease(
        &mut self,
        pool: &ClusterPool,
        count: usize,
        is_urgent: bool,
    ) -> Result<(), String> {
        for _ in 0..count {
            if self.exhausted(pool, is_urgent).is_some() {
                return Ok(());
            }
            match self.lease_one(pool).await? {
                Some(block) => tracing::info!("IPBlock {block} is leased for IPPool {}", pool.pool.name),
                None => self.remember_exhausted(pool),
            }
        }
        Ok(())
    }

    fn remember_exhausted(&mut self, pool: &ClusterPool) {
        let blocks = PoolBlocks::of(&pool.pool.ranges, pool.block_size);
        let own = self.leases.blocks().filter(|block| blocks.overlaps(*block)).count();
        let all = self.leased.as_ref().map_or(own, |(_, leased)| leased.count(&blocks));
        let text = format!(
            "IPPool {}: no block is free: this node has {own}, other nodes {} (kubectl get ipblocks); extend its ips",
            pool.pool.name,
            all.saturating_sub(own)
        );
        tracing::warn!("{text}");
        let exhausted = ExhaustedPool { since: Instant::now(), jitter: fastrand::f64(), text };
        self.exhausted.insert(pool.pool.name.clone(), exhausted);
    }

    /// Leases the block that has an address.
    ///
    /// # Errors
    /// As [`PoolLeases::lease`].
    pub(crate) async fn lease_with(&mut self, pool: &ClusterPool, address: IpAddr) -> Result<(), String> {
        if self.outcome_of(address).is_some() {
            return Ok(());
        }
        let mut size = pool.block_size;
        for _ in 0..2 {
            let block = IpBlock::containing(address, size);
            match self.leases.lease(block).await.map_err(|error| error.to_string())? {
                LeaseOutcome::Leased => return Ok(()),
                LeaseOutcome::OtherSize(other) => size = other,
                LeaseOutcome::Taken => break,
            }
        }
        let problem =
            format!("requested IP address {address} cannot be allocated: another node has leased its block");
        let is_alone = size.addresses() == 1;
        let known_for = if is_alone { REMEMBERED_IF_ALONE } else { REMEMBERED };
        let outcome = AddressOutcome::Taken { problem, is_alone };
        self.addresses.insert(address, (Instant::now() + known_for, outcome));
        Ok(())
    }

    /// Returns what is known about an address; `None` if it was not tried yet.
    pub(crate) fn outcome_of(&self, address: IpAddr) -> Option<AddressOutcome> {
        if self.leases.blocks().any(|block| block.contains(address)) {
            return Some(AddressOutcome::Leased);
        }
        let known = self.addresses.get(&address).filter(|(until, _)| Instant::now() < *until);
        known.map(|(_, outcome)| outcome.clone())
    }

    /// Whether no further block of a pool could be leased a short time ago.
    pub(crate) fn was_exhausted(&self, pool: &ClusterPool) -> bool {
        let exhausted = self.exhausted.get(&pool.pool.name);
        exhausted.is_some_and(|exhausted| exhausted.since.elapsed() < REMEMBERED_WITH_ANOTHER)
    }

    /// Returns why no further block of a pool can be leased at present. This is known for longer if no ADD waits.
    pub(crate) fn exhausted(&self, pool: &ClusterPool, is_urgent: bool) -> Option<&str> {
        let ExhaustedPool { since, jitter, text } = self.exhausted.get(&pool.pool.name)?;
        let lasts = if is_urgent { REMEMBERED } else { REMEMBERED_BY_IDLE.mul_f64(1.0 + jitter) };
        (since.elapsed() < lasts).then_some(text.as_str())
    }

    /// Returns what is known about a pool for which an ADD waits.
    pub(crate) fn state(&self, pool: &ClusterPool) -> PoolOutcome {
        let has_free = |block: IpBlock| {
            let mut usable =
                block.addresses().filter(|address| pool.pool.ranges.contains(*address)).peekable();
            usable.peek().is_some() && {
                let claimed = self.store().claimed_in(block).unwrap_or_default();
                usable.any(|address| !claimed.contains(&address))
            }
        };
        if self.leases.blocks().any(has_free) {
            return PoolOutcome::HasRoom;
        }
        match self.exhausted(pool, true) {
            Some(text) => PoolOutcome::Exhausted(text.to_owned()),
            None => PoolOutcome::Unknown,
        }
    }

    /// Leases a block of a pool: first one of a few, then one of those that a list does not have.
    async fn lease_one(&mut self, pool: &ClusterPool) -> Result<Option<IpBlock>, String> {
        let own = LeasedBlocks::of(self.leases.blocks());
        let seed = format!("{}/{}", self.uid, pool.pool.name);
        let blocks = PoolBlocks::of(&pool.pool.ranges, pool.block_size);
        let guesses =
            candidates(&blocks, &seed).filter(|block| !own.overlaps(*block)).take(GUESSES).collect();
        if let Some(leased) = self.try_blocks(pool, guesses).await? {
            return Ok(Some(leased));
        }
        for _ in 0..2 {
            self.list_leased().await?;
            let (leased, has_tried) = self.lease_unlisted(pool, &own, &seed).await?;
            if leased.is_some() || !has_tried {
                return Ok(leased);
            }
            // Others have leased what was free: list again.
            self.leased = None;
        }
        Ok(None)
    }

    /// Leases a block of a pool that the list does not have. Also returns whether there was one to try.
    async fn lease_unlisted(
        &mut self,
        pool: &ClusterPool,
        own: &LeasedBlocks,
        seed: &str,
    ) -> Result<(Option<IpBlock>, bool), String> {
        let mut has_tried = false;
        // Where addresses are divided into smaller blocks, some of those may be free.
        let smaller =
            [1, 2, 4, 8, 16, 32, 64, 128, 256].into_iter().filter_map(|size| BlockSize::try_from(size).ok());
        for size in smaller.filter(|size| *size <= pool.block_size).rev() {
            let blocks = PoolBlocks::of(&pool.pool.ranges, size);
            let is_free = |block: &IpBlock| {
                let is_leased = self.leased.as_ref().is_some_and(|(_, leased)| leased.overlaps(*block));
                !own.overlaps(*block) && !is_leased
            };
            let all = candidates(&blocks, seed).take(MOST_COMPARED);
            let free: Vec<_> = all.filter(is_free).take(2 * GUESSES).collect();
            has_tried |= !free.is_empty();
            if let Some(leased) = self.try_blocks(pool, free).await? {
                return Ok((Some(leased), true));
            }
        }
        Ok((None, has_tried))
    }

    /// Lists the blocks of all nodes, unless that was done a short time ago.
    async fn list_leased(&mut self) -> Result<(), String> {
        if self.leased.as_ref().is_none_or(|(at, _)| at.elapsed() >= REMEMBERED) {
            let leased =
                self.api.leased().await.map_err(|error| format!("failed to list the IPBlocks: {error}"))?;
            self.leased = Some((Instant::now(), LeasedBlocks::of(leased)));
        }
        Ok(())
    }

    async fn try_blocks(
        &mut self,
        pool: &ClusterPool,
        blocks: Vec<IpBlock>,
    ) -> Result<Option<IpBlock>, String> {
        for block in blocks {
            if let Some(leased) = self.try_block(pool, block).await? {
                return Ok(Some(leased));
            }
        }
        Ok(None)
    }

    /// Tries to lease a block, or one of its addresses if they are divided into blocks of another size.
    async fn try_block(&mut self, pool: &ClusterPool, block: IpBlock) -> Result<Option<IpBlock>, String> {
        let size = match self.leases.lease(block).await.map_err(|error| error.to_string())? {
            LeaseOutcome::Leased => return Ok(Some(block)),
            LeaseOutcome::Taken => return Ok(None),
            LeaseOutcome::OtherSize(size) => size,
        };
        let usable = block.addresses().filter(|address| pool.pool.ranges.contains(*address));
        let mut others: Vec<_> = usable.map(|address| IpBlock::containing(address, size)).collect();
        others.dedup();
        for other in others.into_iter().take(GUESSES) {
            if self.leases.lease(other).await.map_err(|error| error.to_string())? == LeaseOutcome::Leased {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
