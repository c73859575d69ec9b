//! What the exporter asks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use exporter::{CollectError, Collector, PodInfo, Workload, WorkloadResolver};
use kube::Client;
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    api_error::ApiError, owner_cache::OwnerCache, owner_chain::resolve_owners, pod_watch::watch_pods,
    rest_mapper::RestMapper,
};

/// How long the API server is waited for, and when it is asked again.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// How long one answer may take.
    pub answer: Duration,
    /// How long to wait after a first failure. Pauses double from there.
    pub first_pause: Duration,
    /// How long to wait at most before trying again what may work again any time.
    pub longest_pause: Duration,
    /// How long to wait at most after a refusal, or when there is no such owner.
    pub longest_refusal: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            longest_refusal: Duration::from_secs(3600),
        }
    }
}

/// Watches the pods of a node, and learns which workloads they belong to. Ends when dropped.
#[derive(Debug)]
pub struct WorkloadWatcher {
    shared: Arc<WatcherShared>,
    task: AbortHandle,
}

pub(crate) struct WatcherShared {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) patience: RetryPolicy,
    pub(crate) kinds: RestMapper,
    /// There may be owners to ask for.
    pub(crate) changed: Notify,
    register: Mutex<OwnerCache>,
    watch_failure: Mutex<Option<ApiError>>,
}

impl WorkloadWatcher {
    /// Starts to watch the pods of a node, by the name it has in Kubernetes. Must be called in a runtime; the API
    /// server need not be there yet.
    pub fn start(client: Client, node: String, patience: RetryPolicy) -> Self {
        let shared = Arc::new(WatcherShared {
            client,
            node,
            patience,
            kinds: RestMapper::default(),
            changed: Notify::new(),
            register: Mutex::new(OwnerCache::new(patience)),
            watch_failure: Mutex::new(None),
        });
        let theirs = shared.clone();
        let work = async move { tokio::join!(watch_pods(&theirs), resolve_owners(&theirs)) };
        let task = tokio::spawn(work).abort_handle();
        Self { shared, task }
    }
}

impl Drop for WorkloadWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WorkloadResolver for WorkloadWatcher {
    fn owner(&self, pod: &PodInfo) -> Option<Arc<Workload>> {
        self.shared.register().owner(pod)
    }

    fn troubles(&self) -> Vec<CollectError> {
        let mut troubles = self.shared.register().troubles();
        troubles.extend(self.shared.watch_trouble());
        troubles
    }
}

impl WatcherShared {
    /// Nobody keeps it over a wait.
    pub(crate) fn register(&self) -> MutexGuard<'_, OwnerCache> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_watch_failure(&self, failure: Option<ApiError>) {
        *self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn watch_trouble(&self) -> Option<CollectError> {
        let failure = self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = failure.as_ref()?;
        let what = format!("pods of node {} from the API server: {failure}", self.node);
        Some(CollectError { collector: Collector::Owners, reason: failure.reason(false)?, what })
    }
}

impl std::fmt::Debug for WatcherShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("node", &self.node)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
