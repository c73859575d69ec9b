//! What the agent does for one object of the node: it keeps the files of the node up to date, leases blocks, and answers.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use block_leases::{ApiError, BlockLeases, BlockOwner};
use ipam::LocalStore;
use kube::api::DynamicObject;
use kubeapi::ObjectStore;

use crate::{
    KubeBlocks,
    block_availability::{self, BlockAvailability},
    idle_times::IdleTimes,
    ip_block::IpBlockObject,
    leasing::PoolLeases,
    node_object::{NodeLabels, NodeObject},
    plan::{self, BlockUse, PlannedChange, PoolNeed},
    pool_directory::{ClusterPool, PoolFiles},
    pool_status,
    socket::{BlockRequest, Waiting},
    sync_log::SyncLog,
    use_reports::UseReports,
};

/// Time between two comparisons with the cluster, if nothing has changed.
const SYNC_INTERVAL: Duration = Duration::from_secs(300);
/// The same while blocks are terminating whose addresses are in use.
const DRAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two renewals of the blocks of a node whose object does not exist.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which renewals that failed are repeated.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Time after which a request that failed is repeated for the first time.
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
    /// Whether pods are watched, so that addresses can be reserved for them.
    pub(crate) watches_pods: bool,
}

/// The work for one object of the node.
pub(crate) struct Session {
    options: SessionOptions,
    api: KubeBlocks,
    leases: PoolLeases,
    sources: Option<PoolSources>,
    /// The pools that plugins read.
    files: Arc<PoolFiles>,
    /// Those that were read since.
    next: Option<Arc<PoolFiles>>,
    /// Why there are none, if there are none.
    not_ready: Option<String>,
    /// The addresses that are reserved for certain pods; `None` until they are known.
    reserved: Option<Arc<BTreeSet<IpAddr>>>,
    /// Whether the objects of the cluster may have changed since the files were written.
    has_changed: bool,
    is_node_missing: bool,
    waiting: Vec<Waiting<BlockRequest>>,
    reports: UseReports,
    idle_times: IdleTimes,
    next_sync: Instant,
    next_renewal: Instant,
    /// When the next lease is tried, after one has failed, and why it failed.
    failure: Option<(Instant, String)>,
    /// How often one has failed since one succeeded.
    failures: u32,
    /// How often a comparison with the cluster has failed since one succeeded.
    sync_failures: u32,
    /// Whether the files were written.
    has_files: bool,
    sync_log: SyncLog,
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
            reserved: (!options.watches_pods).then(Arc::default),
            options,
            api,
            leases,
            sources: None,
            files: Arc::default(),
            next: None,
            not_ready: None,
            has_changed: true,
            is_node_missing: false,
            waiting: Vec::new(),
            reports: UseReports::default(),
            idle_times: IdleTimes::default(),
            next_sync: now,
            next_renewal: now,
            failure: None,
            failures: 0,
            sync_failures: 0,
            has_files: false,
            sync_log: SyncLog::default(),
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

    /// Sets the addresses that are reserved for certain pods.
    pub(crate) fn set_reserved(&mut self, reserved: Arc<BTreeSet<IpAddr>>) {
        let is_same = self
            .reserved
            .as_ref()
            .is_some_and(|before| Arc::ptr_eq(before, &reserved) || *before == reserved);
        if !is_same {
            self.has_changed = true;
            self.reserved = Some(reserved);
        }
    }

    /// Says why the pools are not known yet, if they are not.
    pub(crate) fn set_not_ready(&mut self, problem: Option<String>) {
        self.not_ready = problem;
    }

    /// Reads the pools if they have changed, and returns whether they have. [`Session::step`] writes them for plugins.
    pub(crate) fn read_pools(&mut self) -> bool {
        let Some(PoolSources { pools, reserved }) = self.sources.as_ref().filter(|_| self.has_changed) else {
            return false;
        };
        let (Some(pools), Some(reserved), Some(of_pods)) =
            (pools.objects(), reserved.objects(), &self.reserved)
        else {
            return false;
        };
        let (pools, reserved) = (pools.iter().map(AsRef::as_ref), reserved.iter().map(AsRef::as_ref));
        let files = PoolFiles::of(pools, reserved, of_pods, &self.options.node_name, &self.options.labels);
        if files.invalid != self.pools().map_or(Vec::new(), |current| current.invalid.clone()) {
            for invalid in &files.invalid {
                tracing::warn!("IPPool {} cannot be used: {}", invalid.name, invalid.problem);
            }
        }
        self.next = Some(Arc::new(files));
        self.has_changed = false;
        true
    }

    /// Returns the pools, as last read; `None` until they were.
    pub(crate) fn pools(&self) -> Option<Arc<PoolFiles>> {
        self.next.clone().or_else(|| self.has_files.then(|| self.files.clone()))
    }

    /// Adds a request of a plugin.
    pub(crate) fn add(&mut self, waiting: Waiting<BlockRequest>) {
        self.waiting.push(waiting);
    }

    /// Ends the session, and returns the requests that were not answered.
    pub(crate) fn into_waiting(self) -> Vec<Waiting<BlockRequest>> {
        self.waiting
    }

    /// Does what is due. Pools that were read are written if `can_write`.
    pub(crate) async fn step(&mut self, can_write: bool) {
        self.waiting.retain(|waiting| !waiting.is_closed());
        if can_write {
            self.write_pools();
        }
        self.sync().await;
        self.renew().await;
        let is_due = self.failure.as_ref().is_none_or(|(retry_at, _)| Instant::now() >= *retry_at);
        // Without pools, all blocks would be surplus.
        if is_due && self.has_files && !self.files.is_blocked && self.leases.is_synced() {
            match self.follow_plan().await {
                Ok(()) => {
                    self.failure = None;
                    self.failures = 0;
                }
                Err(error) => self.fail(error),
            }
        }
        self.answer();
    }

    /// Nothing is leased for a while, which is longer after each failure.
    fn fail(&mut self, error: String) {
        tracing::warn!("{error}");
        self.failures += 1;
        let delay = delay_after(self.failures);
        self.failure = Some((Instant::now() + delay, error));
        self.next_sync = self.next_sync.min(Instant::now() + delay);
    }

    /// Writes the pools for plugins. Until all objects were listed, plugins use those of an earlier agent.
    fn write_pools(&mut self) {
        let Some(next) = &self.next else { return };
        match next.write(&self.options.pools_dir) {
            Ok(()) => {
                self.files = next.clone();
                self.next = None;
                self.has_files = true;
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
                self.sync_failures = 0;
                self.sync_log.add(&report);
                // Whether addresses of draining blocks are free again is read from the node only.
                let interval = if report.draining.is_empty() { SYNC_INTERVAL } else { DRAIN_INTERVAL };
                self.next_sync = Instant::now() + interval;
            }
            // Other blocks can be leased meanwhile.
            Err(error) => {
                tracing::warn!("{error}");
                self.sync_failures += 1;
                self.next_sync = Instant::now() + delay_after(self.sync_failures);
            }
        }
    }

    async fn renew(&mut self) {
        if !self.is_node_missing || !self.leases.is_synced() || Instant::now() < self.next_renewal {
            return;
        }
        tracing::warn!("the Node {} does not exist; its blocks are renewed", self.options.node_name);
        self.next_renewal = Instant::now() + RENEWAL_INTERVAL;
        if let Err(error) = self.leases.renew_all().await {
            tracing::warn!("{error}");
            self.next_renewal = Instant::now() + RENEWAL_RETRY_DELAY;
        }
    }

    /// Leases and releases blocks. After a failure it continues with other pools.
    async fn follow_plan(&mut self) -> Result<(), String> {
        let used = self.used_blocks().map_err(|error| error.to_string())?;
        let needs = self.needs();
        let urgent: BTreeSet<_> =
            needs.iter().filter(|need| need.waiting > 0).map(|need| need.name.clone()).collect();
        let planned = plan::plan(&needs, &used);
        let mut done = Ok(());
        for change in planned {
            let changed = match change {
                PlannedChange::Lease(name, count) => {
                    let Some(pool) = self.files.pools.iter().find(|pool| pool.pool.name == name) else {
                        continue;
                    };
                    self.leases.lease(pool, count, urgent.contains(&name)).await
                }
                PlannedChange::Release(block) => {
                    self.idle_times.forget(block);
                    self.leases.release(block).await
                }
            };
            done = done.and(changed);
        }
        let (files, reserved) = (self.files.clone(), self.reserved.clone().unwrap_or_default());
        let with_address = |waiting: &Waiting<BlockRequest>| {
            let address = waiting.request.address?;
            Some((
                block_availability::pool_with(&files, &reserved, &waiting.request, address)?.clone(),
                address,
            ))
        };
        let wanted: Vec<_> = self.waiting.iter().filter_map(with_address).collect();
        for (pool, address) in wanted {
            done = done.and(self.leases.lease_with(&pool, address).await);
        }
        self.report(&used).await;
        done
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
            let idle = self.idle_times.update(block, !claimed.is_empty(), now);
            used.push(BlockUse { block, claimed, idle });
        }
        self.idle_times.retain(|block| used.iter().any(|used| used.block == block));
        Ok(used)
    }

    /// Returns the pools with the numbers of ADDs that wait for them: for the first that is not exhausted.
    fn needs(&self) -> Vec<PoolNeed<'_>> {
        let is_usable = |name: &&String| {
            let known = self.files.get(name).filter(|pool| pool.is_in_use());
            known.is_some_and(|pool| self.leases.exhausted(pool, true).is_none())
        };
        let requests = self.waiting.iter().map(|waiting| &waiting.request);
        let without_address = requests.filter(|request| request.address.is_none());
        let wanted: Vec<_> =
            without_address.filter_map(|request| request.pools.iter().find(is_usable)).collect();
        let need = |cluster: &'_ ClusterPool| {
            wanted.iter().filter(|name| name.as_str() == cluster.pool.name.as_str()).count()
        };
        let mut needs = Vec::new();
        for cluster in &self.files.pools {
            let ClusterPool { pool, block_size, .. } = cluster;
            needs.push(PoolNeed {
                name: &pool.name,
                ranges: &pool.ranges,
                size: *block_size,
                waiting: need(cluster),
            });
        }
        needs
    }

    /// Answers the requests about which something is known.
    fn answer(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let failure = self.failure.as_ref().map(|(_, problem)| problem.as_str());
        let is_known = self.has_files && self.leases.is_synced();
        let failure = if is_known { failure } else { self.not_ready.as_deref().or(failure) };
        // Until the pools and the leases are known, there are no answers but failures.
        let (pools, none) = (&self.files, Arc::default());
        let mut availability =
            BlockAvailability::new(pools, &self.leases, self.reserved.as_ref().unwrap_or(&none), failure);
        for waiting in waiting {
            let answer =
                if is_known { availability.answer_to(&waiting) } else { availability.failed(&waiting) };
            match answer {
                Some(answer) => waiting.answer(answer),
                None => self.waiting.push(waiting),
            }
        }
    }
}

/// Returns the delay after a number of failures: twice as long after each, with a random part.
fn delay_after(failures: u32) -> Duration {
    (RETRY_DELAY * 2_u32.pow(failures.saturating_sub(1).min(3))).mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;
