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

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        future::pending,
        pin::pin,
        sync::{Mutex, PoisonError},
        time::Duration,
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::timeout;
    use tower::{BoxError, service_fn};

    use super::*;

    fn object(name: &str) -> Value {
        let field = json!({"manager": "kubectl", "operation": "Update"});
        let metadata =
            json!({"name": name, "namespace": "a", "resourceVersion": "5", "managedFields": [field]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    }

    fn list(names: &[&str]) -> (u16, String) {
        let items: Vec<Value> = names.iter().map(|name| object(name)).collect();
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "5"}, "items": items});
        (200, list.to_string())
    }

    fn changes(events: &[(&str, &str)]) -> (u16, String) {
        let event =
            |(kind, name): &(&str, &str)| format!("{}\n", json!({"type": kind, "object": object(name)}));
        (200, events.iter().map(event).collect())
    }

    /// Returns a client of an API server with these responses.
    fn client(responses: impl IntoIterator<Item = (u16, String)>) -> Client {
        let responses = Arc::new(Mutex::new(responses.into_iter().collect::<VecDeque<_>>()));
        let service = service_fn(move |_: Request<Body>| {
            let next = responses.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            async move {
                let Some((status, text)) = next else { return pending().await };
                Ok::<_, BoxError>(Response::builder().status(status).body(Body::from(text.into_bytes()))?)
            }
        });
        Client::new(service, "default")
    }

    fn names(store: &ObjectStore<ConfigMap>) -> Option<Vec<String>> {
        let mut names: Vec<_> = store.objects()?.iter().map(|object| object.name_any()).collect();
        names.sort();
        Some(names)
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_known_after_the_first_list_and_follow_each_change() {
        let refused = json!({"kind": "Status", "status": "Failure", "code": 500}).to_string();
        let later = [("ADDED", "c"), ("DELETED", "a"), ("MODIFIED", "b")];
        let status =
            json!({"kind": "Status", "status": "Failure", "reason": "Expired", "message": "", "code": 410});
        let expired = (200, format!("{}\n", json!({"type": "ERROR", "object": status})));
        let client = client([(500, refused), list(&["a", "b"]), changes(&later), expired, list(&["d"])]);
        let (store, events) = ObjectStore::<ConfigMap>::watch(&client, (), Config::default());
        let mut events = pin!(events);
        assert_eq!(names(&store), None, "not yet listed");
        let mut seen = Vec::new();
        while seen.last() != Some(&vec!["d".to_owned()]) {
            timeout(Duration::from_secs(3600), events.next()).await.unwrap().unwrap();
            seen.extend(names(&store));
            seen.dedup();
        }
        let expected = [&["a", "b"][..], &["a", "b", "c"], &["b", "c"], &["d"]];
        assert_eq!(
            seen,
            expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        );
        assert!(store.objects().unwrap().iter().all(|object| object.managed_fields().is_empty()));
    }
}
