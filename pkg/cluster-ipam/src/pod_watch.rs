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
use tokio::sync::watch;

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

/// Watches the pods of a node, for ever. Changes are sent to the receiver.
pub(crate) fn start(kubeconfig: PathBuf, node_name: String) -> watch::Receiver<KnownPods> {
    let (sender, receiver) = watch::channel(KnownPods::default());
    tokio::spawn(async move {
        let mut backoff = WatchBackoff::default();
        loop {
            // The kubelet replaces its certificate: the file is read again after every failure.
            let problem = match kubeapi::connect_with(&kubeconfig).await {
                Ok(client) => follow(client, &node_name, &sender, &mut backoff).await,
                Err(error) => with_causes(&error),
            };
            let is_new = sender.borrow().problem.is_none();
            if is_new {
                tracing::warn!("the pods of this node cannot be read: {problem}");
            }
            sender.send_modify(|known| known.problem = Some(problem));
            tokio::time::sleep(backoff.next().unwrap_or_default()).await;
        }
    });
    receiver
}

/// Follows the changes until an error occurs, and returns it.
async fn follow(
    client: kube::Client,
    node_name: &str,
    sender: &watch::Sender<KnownPods>,
    backoff: &mut WatchBackoff,
) -> String {
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let config = Config::default().fields(&format!("spec.nodeName={node_name}")).any_semantic().timeout(290);
    let mut events = pin!(QuietStream::of(watcher(pods, config)));
    let mut listed = PodsByUid::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => insert(&mut listed, pod),
            Ok(Event::InitDone) => {
                let pods = std::mem::take(&mut listed);
                sender.send_modify(|known| *known = KnownPods { pods: Some(pods), problem: None });
                *backoff = WatchBackoff::default();
            }
            Ok(Event::Apply(pod)) => {
                sender.send_modify(|known| insert(known.pods.get_or_insert_default(), pod))
            }
            Ok(Event::Delete(pod)) => sender.send_modify(|known| {
                known.pods.get_or_insert_default().remove(&pod.uid().unwrap_or_default());
            }),
            Err(error) => return with_causes(&error),
        }
    }
    "the watch ended".to_owned()
}

fn insert(pods: &mut PodsByUid, mut pod: PartialObjectMeta<Pod>) {
    pod.metadata.managed_fields = None;
    pods.insert(pod.uid().unwrap_or_default(), Arc::new(pod));
}
