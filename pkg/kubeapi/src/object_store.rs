//! The objects of a kind, kept up to date by a watch.

use std::{
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use futures_util::{FutureExt, Stream, StreamExt};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
        watcher::Config,
    },
};
use serde::de::DeserializeOwned;

use crate::{QuietStream, WatchBackoff, with_causes};

/// The objects of a kind, as the API server had them when it last reported a change.
#[derive(Clone)]
pub struct ObjectStore<K: Resource + 'static>(Store<K>)
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

impl<K> ObjectStore<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash,
{
    /// Returns the objects of a kind that `config` selects, and the stream that updates them: each item is a change. The stream
    /// does not end: after a failure, which it logs, it lists the objects again.
    pub fn watch(
        client: &Client,
        kind: K::DynamicType,
        config: Config,
    ) -> (Self, impl Stream<Item = ()> + use<K>) {
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
    pub fn objects(&self) -> Option<Vec<Arc<K>>> {
        let is_ready = self.0.wait_until_ready().now_or_never().is_some_and(|ready| ready.is_ok());
        is_ready.then(|| self.0.state())
    }
}
