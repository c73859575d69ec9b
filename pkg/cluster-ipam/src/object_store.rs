//! The objects of a kind, kept up to date by a watch.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
        watcher::Config,
    },
};
use kubeapi::{QuietStream, with_causes};
use serde::de::DeserializeOwned;

use crate::{
    ip_block::{self, IpBlockObject, NODE_UID},
    watch_backoff::WatchBackoff,
};

/// The objects of a kind, as the API server had them when it last reported a change.
#[derive(Clone)]
pub(crate) struct ObjectStore<K: Resource + 'static>(Store<K>)
where
    K::DynamicType: Eq + Hash;

impl<K: Resource> fmt::Debug for ObjectStore<K>
where
    K::DynamicType: Eq + Hash,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectStore").finish_non_exhaustive()
    }
}

impl ObjectStore<DynamicObject> {
    /// Returns the `SpiderIPPool` objects, and the stream that updates them: each item is a change. The stream does not end:
    /// after a failure, which it logs, it lists the objects again.
    pub(crate) fn of_pools(client: &Client) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, Self::pool_resource(), Config::default())
    }

    /// Returns the resource of the pools.
    pub(crate) fn pool_resource() -> ApiResource {
        spiderpool("SpiderIPPool", "spiderippools")
    }

    /// Returns the `SpiderReservedIP` objects, likewise.
    pub(crate) fn of_reserved(client: &Client) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, spiderpool("SpiderReservedIP", "spiderreservedips"), Config::default())
    }
}

impl ObjectStore<IpBlockObject> {
    /// Returns the blocks of a node, likewise.
    pub(crate) fn of_blocks(client: &Client, uid: &str) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, ip_block::resource(), Config::default().labels(&format!("{NODE_UID}={uid}")))
    }

    /// Returns all blocks, likewise.
    pub(crate) fn of_all_blocks(client: &Client) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, ip_block::resource(), Config::default())
    }
}

impl ObjectStore<Node> {
    /// Returns all nodes, likewise.
    pub(crate) fn of_nodes(client: &Client) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, (), Config::default())
    }
}

impl ObjectStore<PartialObjectMeta<Namespace>> {
    /// Returns the metadata of all namespaces, likewise.
    pub(crate) fn of_namespaces(client: &Client) -> (Self, impl Stream<Item = ()> + use<>) {
        Self::of(client, (), Config::default())
    }
}

impl<K> ObjectStore<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    fn of(client: &Client, kind: K::DynamicType, config: Config) -> (Self, impl Stream<Item = ()> + use<K>) {
        let writer = Writer::<K>::new(kind.clone());
        let store = Self(writer.as_reader());
        // From the watch cache of the API server, without load on etcd.
        let events = watcher(Api::all_with(client.clone(), &kind), config.any_semantic());
        let kind = K::kind(&kind).into_owned();
        let events = events
            .backoff(WatchBackoff::default())
            .modify(|object: &mut K| object.managed_fields_mut().clear())
            .reflect(writer);
        let changes = QuietStream::of(events).filter_map(move |event| {
            let event = event.inspect_err(|error| tracing::warn!("{kind}: {}", with_causes(error)));
            async { event.ok().map(drop) }
        });
        (store, changes)
    }

    /// Returns the objects; `None` until they were listed once.
    pub(crate) fn objects(&self) -> Option<Vec<Arc<K>>> {
        let is_ready = self.0.wait_until_ready().now_or_never().is_some_and(|ready| ready.is_ok());
        is_ready.then(|| self.0.state())
    }
}

fn spiderpool(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", kind),
        plural,
    )
}
