//! The state of the fake API server.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

#[derive(Default)]
pub(super) struct ApiObjects {
    pub(super) version: u64,
    /// The node and metadata of each pod, by name.
    pub(super) pods: BTreeMap<String, (String, Value)>,
    pub(super) events: Vec<Event>,
    /// The resourceVersion up to which events were compacted.
    pub(super) oldest: u64,
    /// Incremented to end all watches.
    pub(super) epoch: u64,
    pub(super) objects: HashMap<String, Value>,
    pub(super) groups: HashMap<String, Vec<Value>>,
    pub(super) faults: HashMap<String, ApiFault>,
    pub(super) token: Option<String>,
    pub(super) requests: Vec<String>,
}

/// A fault of responses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ApiFault {
    /// This HTTP status.
    Status(u16),
    /// No response.
    Hang,
    /// A body that is not JSON.
    Garbage,
}

#[derive(Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) node: String,
    pub(super) text: String,
}

impl ApiObjects {
    pub(super) fn put_pod(&mut self, node: &str, name: &str, uid: &str, more: Value) {
        let mut metadata = json!({ "name": name, "namespace": "ml", "uid": uid });
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let kind = if self.pods.contains_key(name) { "MODIFIED" } else { "ADDED" };
        self.add_event(kind, node, &mut metadata);
        self.pods.insert(name.to_owned(), (node.to_owned(), metadata));
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        let (node, mut metadata) = self.pods.remove(name).unwrap();
        self.add_event("DELETED", &node, &mut metadata);
    }

    pub(super) fn compact(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.events.clear();
    }

    fn add_event(&mut self, kind: &str, node: &str, metadata: &mut Value) {
        self.version += 1;
        metadata["resourceVersion"] = self.version.to_string().into();
        let event = json!({ "type": kind, "object": partial(metadata) });
        self.events.push(Event { version: self.version, node: node.to_owned(), text: format!("{event}\n") });
    }
}

/// Returns a `PartialObjectMetadata`.
pub(super) fn partial(metadata: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
}
