//! The resolver that the exporter uses.

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

/// Timeout and backoff of requests to the API server.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Timeout of a request.
    pub answer: Duration,
    /// Delay after the first failure. It doubles with each further failure.
    pub first_pause: Duration,
    /// Maximum delay after a temporary failure.
    pub longest_pause: Duration,
    /// Maximum delay after a definite failure: access is denied, or the owner does not exist.
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

/// Watches the pods of a node and resolves their workloads. The watch stops on drop.
#[derive(Debug)]
pub struct WorkloadWatcher {
    shared: Arc<WatcherShared>,
    task: AbortHandle,
}

pub(crate) struct WatcherShared {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) kinds: RestMapper,
    /// Notified if there may be owners to get.
    pub(crate) changed: Notify,
    cache: Mutex<OwnerCache>,
    watch_failure: Mutex<Option<ApiError>>,
}

impl WorkloadWatcher {
    /// Starts to watch the pods of the node with this name in Kubernetes. Must be called in a Tokio runtime. The API
    /// server does not have to be available yet.
    pub fn start(client: Client, node: String, retry_policy: RetryPolicy) -> Self {
        let shared = Arc::new(WatcherShared {
            client,
            node,
            retry_policy,
            kinds: RestMapper::default(),
            changed: Notify::new(),
            cache: Mutex::new(OwnerCache::new(retry_policy)),
            watch_failure: Mutex::new(None),
        });
        let of_task = shared.clone();
        let work = async move { tokio::join!(watch_pods(&of_task), resolve_owners(&of_task)) };
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
        self.shared.cache().owner(pod)
    }

    fn errors(&self) -> Vec<CollectError> {
        let mut errors = self.shared.cache().errors();
        errors.extend(self.shared.watch_error());
        errors
    }
}

impl WatcherShared {
    /// Locks the cache. The guard must not be held across an await.
    pub(crate) fn cache(&self) -> MutexGuard<'_, OwnerCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_watch_failure(&self, failure: Option<ApiError>) {
        *self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn watch_error(&self) -> Option<CollectError> {
        let failure = self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = failure.as_ref()?;
        let what = format!("pods of node {} from the API server: {failure}", self.node);
        Some(CollectError { collector: Collector::Owners, reason: failure.reason(false)?, what })
    }
}

impl std::fmt::Debug for WatcherShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatcherShared")
            .field("node", &self.node)
            .field("retry_policy", &self.retry_policy)
            .finish_non_exhaustive()
    }
}
