//! What the exporter asks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use exporter::{Collector, OwnerReference, Owners, Pod, Trouble};
use kube::Client;
use tokio::{sync::Notify, task::AbortHandle};

use crate::{climb::keep_climbing, failure::Failure, kinds::Kinds, register::Register, watch::keep_watching};

/// How long the API server is waited for, and when it is asked again.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long one answer may take.
    pub answer: Duration,
    /// How long to wait after a first failure. Pauses double from there.
    pub first_pause: Duration,
    /// How long to wait at most before trying again what may work again any time.
    pub longest_pause: Duration,
    /// How long to wait at most after a refusal, or when there is no such owner.
    pub longest_refusal: Duration,
}

impl Default for Patience {
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
pub struct Workloads {
    shared: Arc<Shared>,
    task: AbortHandle,
}

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) patience: Patience,
    pub(crate) kinds: Kinds,
    /// There may be owners to ask for.
    pub(crate) changed: Notify,
    register: Mutex<Register>,
    watch_failure: Mutex<Option<Failure>>,
}

impl Workloads {
    /// Starts to watch the pods of a node, by the name it has in Kubernetes. Must be called in a runtime; the API
    /// server need not be there yet.
    pub fn start(client: Client, node: String, patience: Patience) -> Self {
        let shared = Arc::new(Shared {
            client,
            node,
            patience,
            kinds: Kinds::default(),
            changed: Notify::new(),
            register: Mutex::new(Register::new(patience)),
            watch_failure: Mutex::new(None),
        });
        let theirs = shared.clone();
        let work = async move { tokio::join!(keep_watching(&theirs), keep_climbing(&theirs)) };
        let task = tokio::spawn(work).abort_handle();
        Self { shared, task }
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Owners for Workloads {
    fn owner(&self, pod: &Pod) -> Option<Arc<OwnerReference>> {
        self.shared.register().owner(pod)
    }

    fn troubles(&self) -> Vec<Trouble> {
        let mut troubles = self.shared.register().troubles();
        troubles.extend(self.shared.watch_trouble());
        troubles
    }
}

impl Shared {
    /// Nobody keeps it over a wait.
    pub(crate) fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_watch_failure(&self, failure: Option<Failure>) {
        *self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn watch_trouble(&self) -> Option<Trouble> {
        let failure = self.watch_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = failure.as_ref()?;
        let what = format!("pods of node {} from the API server: {failure}", self.node);
        Some(Trouble { collector: Collector::Owners, reason: failure.reason(false)?, what })
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("node", &self.node)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
