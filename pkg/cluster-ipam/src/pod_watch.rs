//! The pods of this node, which are read with the credentials of its kubelet: a role cannot be restricted to the pods of a node,
//! but since Kubernetes 1.32 the API server lets a kubelet read those of its own node only (authorization mode `Node`).

use std::{collections::BTreeMap, path::PathBuf, pin::pin, sync::Arc};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        watcher,
        watcher::{Config, Event},
    },
};
use kubeapi::{QuietStream, WatchBackoff, with_causes};
use tokio::sync::{Notify, watch};

use crate::pod_annotations;

/// The pods by UID, as their metadata.
pub(crate) type PodsByUid = BTreeMap<String, Arc<PartialObjectMeta<Pod>>>;

/// What is known about the pods of the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownPods {
    /// The pods; `None` until they were listed once.
    pub(crate) pods: Option<PodsByUid>,
    /// Why they cannot be read at present.
    pub(crate) problem: Option<String>,
}

/// Watches the pods of a node.
#[derive(Debug)]
struct PodWatch {
    kubeconfig: PathBuf,
    node_name: String,
    sender: watch::Sender<KnownPods>,
    backoff: WatchBackoff,
}

/// Watches the pods of a node, for ever. Changes are sent to the receiver. They are listed again when `refresh` is notified.
pub(crate) fn start(
    kubeconfig: PathBuf,
    node_name: String,
    refresh: Arc<Notify>,
) -> watch::Receiver<KnownPods> {
    let (sender, receiver) = watch::channel(KnownPods::default());
    let mut watch = PodWatch { kubeconfig, node_name, sender, backoff: WatchBackoff::default() };
    tokio::spawn(async move {
        loop {
            tokio::select! {
                problem = watch.follow() => {
                    watch.report(problem);
                    tokio::time::sleep(watch.backoff.next().unwrap_or_default()).await;
                }
                // Perhaps the connection is lost without a sign.
                () = refresh.notified() => {}
            }
        }
    });
    receiver
}

impl PodWatch {
    /// Follows the changes until an error occurs, and returns it. The kubelet replaces its certificate: the file is read again.
    async fn follow(&mut self) -> String {
        let client = match kubeapi::connect_with(&self.kubeconfig).await {
            Ok(client) => client,
            Err(error) => return with_causes(&error),
        };
        let pods = Api::<PartialObjectMeta<Pod>>::all(client);
        // Pods that have ended do not start again.
        let fields = format!("spec.nodeName={},status.phase!=Failed,status.phase!=Succeeded", self.node_name);
        let config = Config::default().fields(&fields).any_semantic().timeout(290);
        let mut events = pin!(QuietStream::of(watcher(pods, config)));
        let mut listed = PodsByUid::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(pod)) => insert(&mut listed, pod),
                Ok(Event::InitDone) => {
                    let pods = std::mem::take(&mut listed);
                    self.sender.send_modify(|known| *known = KnownPods { pods: Some(pods), problem: None });
                }
                Ok(Event::Apply(pod)) => {
                    // Only now the watch is known to work, too.
                    self.backoff = WatchBackoff::default();
                    self.sender.send_modify(|known| insert(known.pods.get_or_insert_default(), pod));
                }
                Ok(Event::Delete(pod)) => self.sender.send_modify(|known| {
                    known.pods.get_or_insert_default().remove(&pod.uid().unwrap_or_default());
                }),
                Err(error) => return with_causes(&error),
            }
        }
        "the watch ended".to_owned()
    }

    fn report(&self, problem: String) {
        if self.sender.borrow().problem.is_none() {
            tracing::warn!("the pods of this node cannot be read: {problem}");
        }
        self.sender.send_modify(|known| known.problem = Some(problem));
    }
}

/// Adds a pod with what is needed of it: its author can write a lot into annotations.
fn insert(pods: &mut PodsByUid, mut pod: PartialObjectMeta<Pod>) {
    pod.metadata.managed_fields = None;
    pod.annotations_mut().retain(|name, _| pod_annotations::is_used(name));
    pods.insert(pod.uid().unwrap_or_default(), Arc::new(pod));
}
