//! The object of this node in the Kubernetes API.

use std::collections::BTreeMap;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt, watcher,
        watcher::{Config, Event},
    },
};
use kubeapi::{QuietStream, WatchBackoff, with_causes};

/// The labels of a node.
pub(crate) type NodeLabels = BTreeMap<String, String>;

/// What is known about the object of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeObject {
    /// It exists.
    Exists {
        /// Its UID.
        uid: String,
        /// Its labels.
        labels: NodeLabels,
    },
    /// It does not.
    Missing,
}

/// Returns the changes of the object, which begin with what it is now. The stream does not end.
pub(crate) fn changes(client: &Client, name: &str) -> impl Stream<Item = NodeObject> + use<> {
    let nodes = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let config = Config::default().fields(&format!("metadata.name={name}")).timeout(290);
    let mut listed = None;
    let events = watcher(nodes, config).backoff(WatchBackoff::default());
    QuietStream::of(events).filter_map(move |event| {
        let change = match event {
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(node)) => {
                listed = Some(exists(&node));
                None
            }
            Ok(Event::InitDone) => Some(listed.take().unwrap_or(NodeObject::Missing)),
            Ok(Event::Apply(node)) => Some(exists(&node)),
            Ok(Event::Delete(_)) => Some(NodeObject::Missing),
            Err(error) => {
                tracing::warn!("Node: {}", with_causes(&error));
                None
            }
        };
        async move { change }
    })
}

fn exists(node: &impl ResourceExt) -> NodeObject {
    NodeObject::Exists { uid: node.uid().unwrap_or_default(), labels: node.labels().clone() }
}
