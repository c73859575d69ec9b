//! The resolver that the exporter uses.

use std::sync::Arc;

use exporter::{CollectError, PodInfo, Workload, WorkloadResolver};
use kube::Client;
use tokio::task::AbortHandle;

use crate::{
    owner_chain::resolve_owners, pod_watch::watch_pods, retry_policy::RetryPolicy,
    watcher_shared::WatcherShared,
};

/// Watches the pods of a node and resolves their workloads. The watch stops on drop.
#[derive(Debug)]
pub struct WorkloadWatcher {
    shared: Arc<WatcherShared>,
    task: AbortHandle,
}

impl WorkloadWatcher {
    /// Starts to watch the pods of the node with this name in Kubernetes. Must be called in a Tokio runtime. The API
    /// server does not have to be available yet.
    pub fn start(client: Client, node: String, retry_policy: RetryPolicy) -> Self {
        let shared = Arc::new(WatcherShared::new(client, node, retry_policy));
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
