//! The choice of the blocks that are leased for a pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use block_leases::{BlockLeases, LeaseError, LeaseOutcome, ReleaseOutcome, SyncReport, candidates};
use ipam::{BlockSize, IpBlock, LocalStore, PoolBlocks, PoolName};

use crate::{KubeBlocks, pool_directory::ClusterPool, socket::BlockAnswer};

/// The number of blocks that are tried without knowing which are leased.
const GUESSES: usize = 4;
/// The number of blocks that are compared with a list of those that are leased.
const MOST_COMPARED: usize = 1 << 16;
/// How long it is remembered that a pool has no block left, or that an address cannot be leased.
const REMEMBERED: Duration = Duration::from_secs(5);

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

/// The leases of the node, by pool.
#[derive(Debug)]
pub(crate) struct PoolLeases {
    api: KubeBlocks,
    leases: BlockLeases<KubeBlocks, LocalStore>,
    uid: String,
    is_synced: bool,
    exhausted: BTreeMap<PoolName, (Instant, String)>,
    addresses: BTreeMap<IpAddr, (Instant, BlockAnswer)>,
}

impl PoolLeases {
    pub(crate) fn new(api: KubeBlocks, leases: BlockLeases<KubeBlocks, LocalStore>, uid: String) -> Self {
        Self { api, leases, uid, is_synced: false, exhausted: BTreeMap::new(), addresses: BTreeMap::new() }
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
        let report = self.leases.sync().await?;
        self.is_synced = true;
        Ok(report)
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

    /// Leases so many blocks of a pool, or all that are left.
    ///
    /// # Errors
    /// If it is unknown whether a block can be leased.
    pub(crate) async fn lease(&mut self, pool: &ClusterPool, count: usize) -> Result<(), String> {
        for _ in 0..count {
            if self.exhausted(pool).is_some() {
                return Ok(());
            }
            match self.lease_one(pool).await? {
                Some(block) => tracing::info!("IPBlock {block} is leased for IPPool {}", pool.pool.name),
                None => {
                    let text = format!(
                        "IPPool {}: all of its blocks are leased by other nodes; extend its ips",
                        pool.pool.name
                    );
                    tracing::warn!("{text}");
                    self.exhausted.insert(pool.pool.name.clone(), (Instant::now() + REMEMBERED, text));
                }
            }
        }
        Ok(())
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
        let text =
            format!("requested IP address {address} cannot be allocated: another node has leased its block");
        self.addresses.insert(address, (Instant::now() + REMEMBERED, BlockAnswer::refused(text)));
        Ok(())
    }

    /// Returns the answer to a request for an address; `None` if it was not tried yet.
    pub(crate) fn outcome_of(&self, address: IpAddr) -> Option<BlockAnswer> {
        if self.leases.blocks().any(|block| block.contains(address)) {
            return Some(BlockAnswer::default());
        }
        self.addresses
            .get(&address)
            .filter(|(until, _)| Instant::now() < *until)
            .map(|(_, answer)| answer.clone())
    }

    /// Returns why no further block of a pool can be leased at present.
    pub(crate) fn exhausted(&self, pool: &ClusterPool) -> Option<&str> {
        let known = self.exhausted.get(&pool.pool.name)?;
        (Instant::now() < known.0).then_some(known.1.as_str())
    }

    /// Returns what is known about a pool.
    pub(crate) fn state(&self, pool: &ClusterPool) -> PoolOutcome {
        let has_free = |block: IpBlock| {
            let claimed = self.store().claimed_in(block).unwrap_or_default();
            block.addresses().any(|address| pool.pool.ranges.contains(address) && !claimed.contains(&address))
        };
        if self.leases.blocks().any(has_free) {
            return PoolOutcome::HasRoom;
        }
        match self.exhausted(pool) {
            Some(text) => PoolOutcome::Exhausted(text.to_owned()),
            None => PoolOutcome::Unknown,
        }
    }

    /// Leases a block of a pool: first one of a few, then one of those that a list does not have.
    async fn lease_one(&mut self, pool: &ClusterPool) -> Result<Option<IpBlock>, String> {
        let blocks = PoolBlocks::of(&pool.pool.ranges, pool.block_size);
        let own: BTreeSet<_> = self.leases.blocks().collect();
        let is_own = |block: &IpBlock| own.iter().any(|own| own.overlaps(*block));
        let seed = format!("{}/{}", self.uid, pool.pool.name);
        let guesses: Vec<_> =
            candidates(&blocks, &seed).filter(|block| !is_own(block)).take(GUESSES).collect();
        for block in guesses {
            if let Some(leased) = self.try_block(pool, block).await? {
                return Ok(Some(leased));
            }
        }
        let leased =
            self.api.leased().await.map_err(|error| format!("failed to list the IPBlocks: {error}"))?;
        let is_leased = |block: &IpBlock| leased.iter().any(|leased| leased.overlaps(*block));
        let free: Vec<_> = candidates(&blocks, &seed)
            .take(MOST_COMPARED)
            .filter(|block| !is_own(block) && !is_leased(block))
            .take(4 * GUESSES)
            .collect();
        for block in free {
            if let Some(leased) = self.try_block(pool, block).await? {
                return Ok(Some(leased));
            }
        }
        // Blocks of another size may be free where one of this size is not.
        for size in
            [1, 2, 4, 8, 16, 32, 64, 128].into_iter().filter_map(|size| BlockSize::try_from(size).ok())
        {
            if size >= pool.block_size {
                break;
            }
            let smaller = PoolBlocks::of(&pool.pool.ranges, size);
            let free: Vec<_> = candidates(&smaller, &seed)
                .take(MOST_COMPARED)
                .filter(|block| !is_own(block) && !is_leased(block))
                .take(GUESSES)
                .collect();
            for block in free {
                if let Some(leased) = self.try_block(pool, block).await? {
                    return Ok(Some(leased));
                }
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
