//! What the agent does for one object of the node: it keeps the files of the node up to date, leases blocks, and answers.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use block_leases::{ApiError, BlockLeases, BlockOwner, SyncReport};
use ipam::{IpBlock, LocalStore};
use kube::api::DynamicObject;

use crate::{
    KubeBlocks,
    ip_block::IpBlockObject,
    leasing::{PoolLeases, PoolOutcome},
    node_object::{NodeLabels, NodeObject},
    object_store::ObjectStore,
    plan::{self, BlockUse, PlannedChange, PoolNeed},
    pool_directory::{ClusterPool, PoolFiles},
    pool_status,
    socket::{BlockAnswer, WaitingRequest},
    use_reports::UseReports,
};

/// Time between two comparisons with the cluster, if nothing has changed.
const SYNC_INTERVAL: Duration = Duration::from_secs(300);
/// Time between two renewals of the blocks of a node whose object does not exist.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a request that failed is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The number of blocks whose use is reported in one step.
const MOST_REPORTS: usize = 4;

/// The options of a session.
#[derive(Debug)]
pub(crate) struct SessionOptions {
    /// The directory from which plugins read pools.
    pub(crate) pools_dir: PathBuf,
    /// The name of the node.
    pub(crate) node_name: String,
    /// The UID of its object.
    pub(crate) uid: String,
    /// The labels of its object.
    pub(crate) labels: NodeLabels,
}

/// The work for one object of the node.
pub(crate) struct Session {
    options: SessionOptions,
    api: KubeBlocks,
    leases: PoolLeases,
    sources: Option<PoolSources>,
    files: PoolFiles,
    /// Whether the objects of the cluster may have changed since the files were written.
    has_changed: bool,
    is_node_missing: bool,
    waiting: Vec<WaitingRequest>,
    reports: UseReports,
    /// Since when no address of a block is in use.
    unused_since: BTreeMap<IpBlock, Instant>,
    next_sync: Instant,
    next_renewal: Instant,
    /// When the next lease is tried, after one has failed, and why it failed.
    failure: Option<(Instant, String)>,
}

struct PoolSources {
    pools: ObjectStore<DynamicObject>,
    reserved: ObjectStore<DynamicObject>,
}

impl Session {
    pub(crate) fn new(api: KubeBlocks, store: LocalStore, options: SessionOptions) -> Self {
        let owner = BlockOwner { node: options.node_name.clone(), uid: options.uid.clone() };
        let leases =
            PoolLeases::new(api.clone(), BlockLeases::new(api.clone(), store, owner), options.uid.clone());
        let now = Instant::now();
        Self {
            options,
            api,
            leases,
            sources: None,
            files: PoolFiles::default(),
            has_changed: true,
            is_node_missing: false,
            waiting: Vec::new(),
            reports: UseReports::default(),
            unused_since: BTreeMap::new(),
            next_sync: now,
            next_renewal: now,
            failure: None,
        }
    }

    pub(crate) fn uid(&self) -> &str {
        &self.options.uid
    }

    pub(crate) fn set_stores(
        &mut self,
        pools: ObjectStore<DynamicObject>,
        reserved: ObjectStore<DynamicObject>,
        owned: ObjectStore<IpBlockObject>,
    ) {
        self.api.set_owned(owned);
        self.sources = Some(PoolSources { pools, reserved });
    }

    /// The object of the node has changed.
    pub(crate) fn set_node(&mut self, node: NodeObject) {
        self.is_node_missing = node == NodeObject::Missing;
        if let NodeObject::Exists { labels, .. } = node {
            self.has_changed |= labels != self.options.labels;
            self.options.labels = labels;
        }
    }

    /// A pool, a reservation or a block of the node has changed.
    pub(crate) fn set_changed(&mut self) {
        self.has_changed = true;
        self.next_sync = Instant::now();
    }

    /// Adds a request of a plugin.
    pub(crate) fn add(&mut self, waiting: WaitingRequest) {
        self.waiting.push(waiting);
    }

    /// Ends the session, and returns the requests that were not answered.
    pub(crate) fn into_waiting(self) -> Vec<WaitingRequest> {
        self.waiting
    }

    /// Does what is due.
    pub(crate) async fn step(&mut self) {
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        self.update_files();
        self.sync().await;
        self.renew().await;
        if let Err(error) = self.follow_plan().await {
            tracing::warn!("{error}");
            self.failure = Some((Instant::now() + RETRY_DELAY, error));
            self.next_sync = Instant::now() + RETRY_DELAY;
        }
        self.answer();
    }

    /// Writes the pools for plugins. Until all objects were listed, plugins use those of an earlier agent.
    fn update_files(&mut self) {
        let Some(PoolSources { pools, reserved }) = self.sources.as_ref().filter(|_| self.has_changed) else {
            return;
        };
        let (Some(pools), Some(reserved)) = (pools.objects(), reserved.objects()) else { return };
        let (pools, reserved) = (pools.iter().map(AsRef::as_ref), reserved.iter().map(AsRef::as_ref));
        let files = PoolFiles::of(pools, reserved, &self.options.node_name, &self.options.labels);
        if files.invalid != self.files.invalid {
            for invalid in &files.invalid {
                tracing::warn!("IPPool {} cannot be used: {}", invalid.name, invalid.problem);
            }
        }
        match files.write(&self.options.pools_dir) {
            Ok(()) => {
                self.files = files;
                self.has_changed = false;
            }
            Err(error) => tracing::error!("{error}"),
        }
    }

    async fn sync(&mut self) {
        if Instant::now() < self.next_sync || !self.api.knows_owned() {
            return;
        }
        match self.leases.sync().await {
            Ok(report) => {
                log(&report);
                self.next_sync = Instant::now() + SYNC_INTERVAL;
                // A block that is terminating, or should be.
                if !report.draining.is_empty() {
                    self.next_sync = Instant::now() + RETRY_DELAY;
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                self.next_sync = Instant::now() + RETRY_DELAY;
            }
        }
    }

    async fn renew(&mut self) {
        if !self.is_node_missing || Instant::now() < self.next_renewal {
            return;
        }
        tracing::warn!("the Node {} does not exist; its blocks are renewed", self.options.node_name);
        self.next_renewal = Instant::now() + RENEWAL_INTERVAL;
        if let Err(error) = self.leases.renew_all().await {
            tracing::warn!("{error}");
        }
    }

    /// Leases and releases blocks.
    async fn follow_plan(&mut self) -> Result<(), String> {
        if self.failure.as_ref().is_some_and(|(retry_at, _)| Instant::now() < *retry_at) {
            return Ok(());
        }
        self.failure = None;
        if !self.leases.is_synced() {
            return Ok(());
        }
        let used = self.used_blocks().map_err(|error| error.to_string())?;
        for change in plan::plan(&self.needs(), &used) {
            match change {
                PlannedChange::Lease(name, count) => {
                    let Some(pool) = self.files.pools.iter().find(|pool| pool.pool.name == name) else {
                        continue;
                    };
                    self.leases.lease(pool, count).await?;
                }
                PlannedChange::Release(block) => {
                    self.leases.release(block).await?;
                    self.unused_since.remove(&block);
                }
            }
        }
        self.report(&used).await;
        let addresses: Vec<_> = self.waiting.iter().filter_map(|waiting| waiting.request.address).collect();
        for address in addresses {
            let pool = self.files.pools.iter().find(|pool| pool.pool.ranges.contains(address));
            if let Some(pool) = pool {
                self.leases.lease_with(pool, address).await?;
            }
        }
        Ok(())
    }

    /// Reports the use of blocks, unless plugins wait.
    async fn report(&mut self, used: &[BlockUse]) {
        let now = Instant::now();
        self.reports.retain(used);
        let due: Vec<_> = self.reports.due(used, now).into_iter().cloned().collect();
        for used in due.iter().take(if self.waiting.is_empty() { MOST_REPORTS } else { 0 }) {
            let ranges = pool_status::ranges(&used.claimed);
            match self.api.report_use(used.block, &ranges, used.claimed.len()).await {
                Ok(()) | Err(ApiError::Missing) => {}
                Err(error) => tracing::warn!("IPBlock {}: failed to report its use: {error}", used.block),
            }
            self.reports.reported(used, now);
        }
    }

    fn used_blocks(&mut self) -> Result<Vec<BlockUse>, ipam::StoreError> {
        let now = Instant::now();
        let mut used = Vec::new();
        for block in self.leases.blocks() {
            let claimed = self.leases.store().claimed_in(block)?;
            let since = *self.unused_since.entry(block).or_insert(now);
            if !claimed.is_empty() {
                self.unused_since.insert(block, now);
            }
            used.push(BlockUse { block, claimed, idle: now.saturating_duration_since(since) });
        }
        self.unused_since.retain(|block, _| used.iter().any(|used| used.block == *block));
        Ok(used)
    }

    /// Returns the pools with the numbers of ADDs that wait for them: for the first that is not exhausted.
    fn needs(&self) -> Vec<PoolNeed<'_>> {
        let is_usable = |name: &String| {
            let known = self.pool(name);
            known.is_some_and(|pool| {
                !pool.pool.disabled && !pool.pool.terminating && self.leases.exhausted(pool).is_none()
            })
        };
        let wanted: Vec<_> = self
            .waiting
            .iter()
            .filter(|waiting| waiting.request.address.is_none())
            .filter_map(|waiting| waiting.request.pools.iter().find(|name| is_usable(name)))
            .collect();
        let need = |ClusterPool { pool, block_size }: &'_ ClusterPool| {
            let waiting = wanted.iter().filter(|name| name.as_str() == pool.name.as_str()).count();
            (pool.name.clone(), *block_size, waiting)
        };
        let need = |pool| {
            let (_, size, waiting) = need(pool);
            PoolNeed { name: &pool.pool.name, ranges: &pool.pool.ranges, size, waiting }
        };
        self.files.pools.iter().map(need).collect()
    }

    fn pool(&self, name: &str) -> Option<&ClusterPool> {
        self.files.pools.iter().find(|pool| pool.pool.name.as_str() == name)
    }

    /// Answers the requests about which something is known.
    fn answer(&mut self) {
        let mut left = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match self.answer_to(&waiting) {
                Some(answer) => drop(waiting.answer.send(answer)),
                None => left.push(waiting),
            }
        }
        self.waiting = left;
    }

    fn answer_to(&self, waiting: &WaitingRequest) -> Option<BlockAnswer> {
        if let Some(address) = waiting.request.address {
            return self.leases.outcome_of(address);
        }
        if self.has_changed && self.files.pools.is_empty() {
            return None;
        }
        let mut problems = Vec::new();
        for name in &waiting.request.pools {
            let Some(pool) = self.pool(name) else {
                problems.push(format!("IPPool {name} does not exist in the cluster"));
                continue;
            };
            match self.leases.state(pool) {
                PoolOutcome::HasRoom => return Some(BlockAnswer::default()),
                PoolOutcome::Exhausted(problem) => problems.push(problem),
                PoolOutcome::Unknown => {
                    let (_, problem) = self.failure.as_ref()?;
                    return Some(BlockAnswer::unavailable(problem.clone()));
                }
            }
        }
        Some(BlockAnswer::refused(problems.join("; ")))
    }
}

fn log(report: &SyncReport) {
    for lost in &report.lost {
        let owner = lost.owner.as_ref().map_or_else(|| "nobody".to_owned(), |owner| owner.node.clone());
        tracing::error!(
            "IPBlock {}: this node used it, but it belongs to {owner}; {} addresses are in use here: {:?}",
            lost.block,
            lost.in_use.len(),
            lost.in_use
        );
    }
    for (block, in_use) in &report.draining {
        tracing::info!("IPBlock {block} is being deleted, which waits for {} addresses in use", in_use.len());
    }
}
