//! The pods of this node, as they come and go.

use std::{pin::pin, time::Duration};

use futures_util::StreamExt;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta, WatchEvent, WatchParams},
    core::GroupVersionKind,
};
use kubeapi::quietly;
use tokio::time::{sleep, timeout};

use crate::{
    api_error::ApiError, backoff::Backoff, owner_cache::WatchedPod, owner_ref::OwnerRef,
    workload_watcher::WatcherShared,
};

/// How long the API server may keep a watch open, in seconds.
const WATCH_TIMEOUT_SECONDS: u32 = 290;
/// Nothing came for so long: the connection is dead.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(WATCH_TIMEOUT_SECONDS as u64 + 10);
/// On the API server's copy of a static pod: the UID by which the node knows it.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Keeps the register of pods true, for ever.
pub(crate) async fn watch_pods(shared: &WatcherShared) {
    let mut watch = PodWatch::of(shared);
    loop {
        match watch.run_watch().await {
            Ok(()) => {}
            Err(ApiError::Expired) => watch.version = None,
            Err(failure) => {
                // It spoke, and said no: it may be another server than before.
                if !matches!(failure, ApiError::Silent(_)) {
                    watch.version = None;
                }
                shared.set_watch_failure(Some(failure));
            }
        }
        sleep(watch.pause.next(shared.patience.longest_pause)).await;
    }
}

struct PodWatch<'a> {
    shared: &'a WatcherShared,
    pods: Api<DynamicObject>,
    selector: String,
    /// Up to where all is known; `None`: not even which pods there are.
    version: Option<String>,
    pause: Backoff,
}

impl<'a> PodWatch<'a> {
    fn of(shared: &'a WatcherShared) -> Self {
        let kind = GroupVersionKind::gvk("", "v1", "Pod");
        Self {
            shared,
            pods: Api::all_with(shared.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "pods")),
            selector: format!("spec.nodeName={}", shared.node),
            version: None,
            pause: Backoff::starting_with(shared.patience.first_pause),
        }
    }

    /// Follows what happens until the API server ends it, which it does every few minutes.
    async fn run_watch(&mut self) -> Result<(), ApiError> {
        let mut version = match self.version.take() {
            Some(version) => version,
            None => self.list().await?,
        };
        let result = self.follow(&mut version).await;
        self.version = Some(version);
        result
    }

    async fn list(&self) -> Result<String, ApiError> {
        // From the API server's memory, which has an index of pods by node: no load on etcd.
        let params = ListParams::default().fields(&self.selector).match_any();
        let list = self.with_timeout(self.pods.list_metadata(&params)).await?;
        if list.items.is_empty() {
            tracing::warn!(
                "Kubernetes has no pod on node {}; if it calls this node otherwise, say --node-name",
                self.shared.node
            );
        }
        let pods = list.items.into_iter().filter_map(|pod| seen(pod.metadata)).collect();
        self.shared.register().replace(pods);
        self.shared.changed.notify_one();
        list.metadata
            .resource_version
            .ok_or_else(|| ApiError::Malformed("a list of pods without resourceVersion".into()))
    }

    async fn follow(&mut self, version: &mut String) -> Result<(), ApiError> {
        let params = WatchParams::default().fields(&self.selector).timeout(WATCH_TIMEOUT_SECONDS);
        let mut events = pin!(self.with_timeout(self.pods.watch_metadata(&params, version)).await?);
        self.shared.set_watch_failure(None);
        while let Ok(Some(event)) = timeout(WATCH_IDLE_TIMEOUT, quietly(events.next())).await {
            match event? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    advance(version, &pod.metadata);
                    seen(pod.metadata).into_iter().for_each(|pod| self.shared.register().put(pod));
                }
                WatchEvent::Deleted(pod) => {
                    advance(version, &pod.metadata);
                    seen(pod.metadata).into_iter().for_each(|pod| self.shared.register().remove(&pod.uid));
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
            self.pause.reset();
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    async fn with_timeout<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
        let within = self.shared.patience.answer;
        timeout(within, quietly(answer)).await.map_err(|_| ApiError::Silent(within))?.map_err(ApiError::from)
    }
}

fn advance(version: &mut String, metadata: &ObjectMeta) {
    if let Some(now) = &metadata.resource_version {
        version.clone_from(now);
    }
}

fn seen(metadata: ObjectMeta) -> Option<WatchedPod> {
    let owner = OwnerRef::of(&metadata);
    let mirrored = metadata.annotations.and_then(|mut all| all.remove(MIRROR)).filter(|uid| is_hash(uid));
    Some(WatchedPod {
        uid: mirrored.or(metadata.uid)?,
        namespace: metadata.namespace?,
        name: metadata.name?,
        owner,
    })
}

/// Whether it is a static pod's UID. Whoever makes a pod may write annotations, but must not speak for another's UUID.
fn is_hash(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit())
}
