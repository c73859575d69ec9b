//! What the server has.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

#[derive(Default)]
pub(super) struct ApiObjects {
    pub(super) version: u64,
    /// Node and metadata, by name.
    pub(super) pods: BTreeMap<String, (String, Value)>,
    pub(super) events: Vec<Event>,
    /// What happened up to there is forgotten.
    pub(super) oldest: u64,
    /// How often every watch was ended.
    pub(super) epoch: u64,
    pub(super) objects: HashMap<String, Value>,
    pub(super) groups: HashMap<String, Vec<Value>>,
    pub(super) faults: HashMap<String, ApiFault>,
    pub(super) token: Option<String>,
    pub(super) asked: Vec<String>,
}

/// How something is answered wrongly.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ApiFault {
    /// With that status.
    Status(u16),
    /// Never.
    Hang,
    /// With something that is no JSON.
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
        self.happen(kind, node, &mut metadata);
        self.pods.insert(name.to_owned(), (node.to_owned(), metadata));
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        let (node, mut metadata) = self.pods.remove(name).unwrap();
        self.happen("DELETED", &node, &mut metadata);
    }

    pub(super) fn compact(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.events.clear();
    }

    fn happen(&mut self, kind: &str, node: &str, metadata: &mut Value) {
        self.version += 1;
        metadata["resourceVersion"] = self.version.to_string().into();
        let event = json!({ "type": kind, "object": partial(metadata) });
        self.events.push(Event { version: self.version, node: node.to_owned(), text: format!("{event}\n") });
    }
}

/// An object with nothing but metadata.
pub(super) fn partial(metadata: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
}
