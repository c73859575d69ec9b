//! The watch of the pods of this node.

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
    watcher_shared::WatcherShared,
};

/// `timeoutSeconds` of a watch request.
const WATCH_TIMEOUT_SECONDS: u32 = 290;
/// Time without an event after which the connection counts as dead.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(WATCH_TIMEOUT_SECONDS as u64 + 10);
/// The annotation of the mirror pod of a static pod: the UID that the kubelet uses.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Keeps the pods in the cache up to date, forever.
pub(crate) async fn watch_pods(shared: &WatcherShared) {
    let mut watch = PodWatch::of(shared);
    loop {
        match watch.run_watch().await {
            Ok(()) => {}
            Err(ApiError::Expired) => watch.version = None,
            Err(failure) => {
                // The server has refused the request. It may be another one than before: list the pods again.
                if !matches!(failure, ApiError::Timeout(_)) {
                    watch.version = None;
                }
                shared.set_watch_failure(Some(failure));
            }
        }
        sleep(watch.backoff.next(shared.retry_policy.max_delay)).await;
    }
}

struct PodWatch<'a> {
    shared: &'a WatcherShared,
    pods: Api<DynamicObject>,
    selector: String,
    /// The resourceVersion up to which events were received; `None` before the first list.
    version: Option<String>,
    backoff: Backoff,
}

impl<'a> PodWatch<'a> {
    fn of(shared: &'a WatcherShared) -> Self {
        let kind = GroupVersionKind::gvk("", "v1", "Pod");
        Self {
            shared,
            pods: Api::all_with(shared.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "pods")),
            selector: format!("spec.nodeName={}", shared.node),
            version: None,
            backoff: Backoff::starting_with(shared.retry_policy.initial_delay),
        }
    }

    /// Runs one watch until the API server ends it, which happens every few minutes. Lists the pods first if necessary.
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
        // resourceVersion=0: from the watch cache of the API server, without load on etcd.
        let params = ListParams::default().fields(&self.selector).match_any();
        let list = self.with_timeout(self.pods.list_metadata(&params)).await?;
        if list.items.is_empty() {
            tracing::warn!(
                "the API server has no pods on node {}; if the node has another name in Kubernetes, set --node-name",
                self.shared.node
            );
        }
        let pods = list.items.into_iter().filter_map(|pod| watched_pod(pod.metadata)).collect();
        self.shared.cache().replace(pods);
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
                    watched_pod(pod.metadata).into_iter().for_each(|pod| self.shared.cache().put(pod));
                }
                WatchEvent::Deleted(pod) => {
                    advance(version, &pod.metadata);
                    watched_pod(pod.metadata)
                        .into_iter()
                        .for_each(|pod| self.shared.cache().remove(&pod.uid));
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
            self.backoff.reset();
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    async fn with_timeout<T>(&self, answer: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
        let within = self.shared.retry_policy.request_timeout;
        timeout(within, quietly(answer)).await.map_err(|_| ApiError::Timeout(within))?.map_err(ApiError::from)
    }
}

fn advance(version: &mut String, metadata: &ObjectMeta) {
    if let Some(now) = &metadata.resource_version {
        version.clone_from(now);
    }
}

fn watched_pod(metadata: ObjectMeta) -> Option<WatchedPod> {
    let owner = OwnerRef::of(&metadata);
    let mirrored = metadata.annotations.and_then(|mut all| all.remove(MIRROR)).filter(|uid| is_hash(uid));
    Some(WatchedPod {
        uid: mirrored.or(metadata.uid)?,
        namespace: metadata.namespace?,
        name: metadata.name?,
        owner,
    })
}

/// Whether it is the UID of a static pod: a hash. Any user who can create pods can write the annotation, but must not be able
/// to claim the UUID of another pod.
fn is_hash(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit())
}
