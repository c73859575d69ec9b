//! What the tasks of a watcher and its user share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use exporter::{CollectError, Collector};
use kube::Client;
use tokio::sync::Notify;

use crate::{
    api_error::ApiError, owner_cache::OwnerCache, rest_mapper::RestMapper, retry_policy::RetryPolicy,
};

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

impl WatcherShared {
    pub(crate) fn new(client: Client, node: String, retry_policy: RetryPolicy) -> Self {
        Self {
            client,
            node,
            retry_policy,
            kinds: RestMapper::default(),
            changed: Notify::new(),
            cache: Mutex::new(OwnerCache::new(retry_policy)),
            watch_failure: Mutex::new(None),
        }
    }

    /// Locks the cache. The guard must not be held across an await.
    pub(crate) fn cache(&self) -> MutexGuard<'_, OwnerCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_watch_failure(&self, failure: Option<ApiError>) {
        *self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    pub(crate) fn watch_error(&self) -> Option<CollectError> {
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
