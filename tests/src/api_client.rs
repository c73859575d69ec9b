//! A client of the API server whose objects are JSON. All requests use one connection: a process of kubectl takes a tenth of a
//! second, and seconds in the lab.

use std::{fmt, path::Path, time::Duration};

use http::Request;
use kube::Error;
use kubeapi::{Client, RequestError, within};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::control_plane::wait_until;

/// The time within which the API server answers. It may be loaded by other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The resources of the tests.
const RESOURCES: [Resource; 18] = [
    Resource::cluster("api/v1", "namespaces", "Namespace"),
    Resource::cluster("api/v1", "nodes", "Node"),
    Resource::namespaced("api/v1", "configmaps", "ConfigMap"),
    Resource::namespaced("api/v1", "events", "Event"),
    Resource::namespaced("api/v1", "pods", "Pod"),
    Resource::namespaced("api/v1", "serviceaccounts", "ServiceAccount"),
    Resource::namespaced("apis/apps/v1", "daemonsets", "DaemonSet"),
    Resource::namespaced("apis/apps/v1", "deployments", "Deployment"),
    Resource::namespaced("apis/apps/v1", "statefulsets", "StatefulSet"),
    Resource::cluster(
        "apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    ),
    Resource::cluster("apis/rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
    Resource::cluster("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding"),
    Resource::cluster("apis/ipam.silkrail.io/v1alpha1", "ipblocks", "IPBlock"),
    Resource::namespaced("apis/ipam.silkrail.io/v1alpha1", "ipreservations", "IPReservation"),
    Resource::cluster("apis/spiderpool.spidernet.io/v2beta1", "spiderippools", "SpiderIPPool"),
    Resource::cluster("apis/spiderpool.spidernet.io/v2beta1", "spiderreservedips", "SpiderReservedIP"),
    Resource::namespaced("apis/spiderpool.spidernet.io/v2beta1", "spidermultusconfigs", "SpiderMultusConfig"),
    Resource::namespaced(
        "apis/k8s.cni.cncf.io/v1",
        "network-attachment-definitions",
        "NetworkAttachmentDefinition",
    ),
];

/// A kind of objects.
#[derive(Debug)]
struct Resource {
    api: &'static str,
    plural: &'static str,
    kind: &'static str,
    is_namespaced: bool,
}

impl Resource {
    const fn cluster(api: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self { api, plural, kind, is_namespaced: false }
    }

    const fn namespaced(api: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self { api, plural, kind, is_namespaced: true }
    }

    /// Returns the resource with this kind or name.
    fn of(name: &str) -> &'static Self {
        let found = RESOURCES.iter().find(|known| known.plural == name || known.kind == name);
        found.unwrap_or_else(|| panic!("{name} is not in the table of resources"))
    }

    /// Returns the path of the objects in a namespace, if they have one.
    fn path(&self, namespace: &str) -> String {
        if self.is_namespaced {
            format!("/{}/namespaces/{namespace}/{}", self.api, self.plural)
        } else {
            format!("/{}/{}", self.api, self.plural)
        }
    }
}

/// A connection to the API server. Objects without a namespace are in `default`, if their kind has one.
pub struct ApiClient {
    runtime: Runtime,
    client: Client,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

impl ApiClient {
    /// Returns a client with the rights of a kubeconfig file. Sends no request yet.
    ///
    /// # Panics
    /// If the file is invalid.
    pub fn new(kubeconfig: &Path) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(kubeapi::connect_with(kubeconfig)).unwrap();
        Self { runtime, client }
    }

    /// Creates or changes an object, as `kubectl apply` does.
    ///
    /// # Panics
    /// If the API server refuses it.
    pub fn apply(&self, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str();
        let path =
            Resource::of(object["kind"].as_str().unwrap()).path(text("namespace").unwrap_or("default"));
        let path = format!("{path}/{}?fieldManager=tests&force=true", text("name").unwrap());
        self.send("PATCH", &path, "application/apply-patch+yaml", &with_text_quantities(object)).unwrap();
    }

    /// Replaces what is at a path.
    ///
    /// # Panics
    /// If the API server refuses it.
    pub fn replace(&self, path: &str, object: &Value) {
        self.send("PUT", path, "application/json", object).unwrap();
    }

    /// Changes the keys of an object that `patch` has.
    ///
    /// # Panics
    /// If the API server refuses it.
    pub fn merge(&self, resource: &str, namespace: &str, name: &str, patch: &Value) {
        let path = format!("{}/{name}", Resource::of(resource).path(namespace));
        self.send("PATCH", &path, "application/merge-patch+json", patch).unwrap();
    }

    /// Returns an object, if there is one.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.read(&format!("{}/{name}", Resource::of(resource).path(namespace)))
    }

    /// Returns the objects of a resource in all namespaces.
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let resource = Resource::of(resource);
        self.items(&format!("/{}/{}", resource.api, resource.plural))
    }

    /// Returns the objects of a resource in a namespace.
    pub fn list_in(&self, namespace: &str, resource: &str) -> Vec<Value> {
        self.items(&Resource::of(resource).path(namespace))
    }

    /// Deletes an object, if there is one, and does not wait until it is gone.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.remove(&format!("{}/{name}", Resource::of(resource).path(namespace)), &Value::Null);
    }

    /// Deletes the objects of a resource in a namespace, and does not wait until they are gone.
    pub fn delete_all(&self, resource: &str, namespace: &str) {
        self.remove(&Resource::of(resource).path(namespace), &Value::Null);
    }

    /// Removes an object without waiting for anybody: a pod from its kubelet, or another object from its controllers.
    pub fn remove_at_once(&self, resource: &str, object: &Value) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or("default");
        let (namespace, name) = (text("namespace"), text("name"));
        if object["metadata"]["finalizers"].is_array() {
            self.merge(resource, namespace, name, &json!({"metadata": {"finalizers": null}}));
        }
        let path = format!("{}/{name}", Resource::of(resource).path(namespace));
        self.remove(&path, &json!({"gracePeriodSeconds": 0}));
    }

    /// Whether the rights of a service account in the namespace `silkrail` allow a verb in all namespaces. The resource is
    /// `pods`, `nodes/status` or `ipblocks.ipam.silkrail.io`.
    ///
    /// # Panics
    /// If the API server does not say.
    pub fn can(&self, account: &str, verb: &str, resource: &str) -> bool {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes =
            json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource});
        let groups = ["system:serviceaccounts", "system:serviceaccounts:silkrail", "system:authenticated"];
        let user = format!("system:serviceaccount:silkrail:{account}");
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.send("POST", path, "application/json", &review).unwrap();
        answer["status"]["allowed"].as_bool().unwrap()
    }

    /// Waits until the kinds of all `CustomResourceDefinition`s can be used.
    ///
    /// # Panics
    /// If they cannot within a minute.
    pub fn wait_for_definitions(&self) {
        let is_established = |definition: &Value| {
            let conditions = definition["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        };
        wait_until("all definitions are established", || {
            self.list("customresourcedefinitions").iter().all(is_established)
        });
    }

    /// Whether the API server answers and is ready.
    ///
    /// # Panics
    /// If the request is invalid, which it is not.
    pub fn is_ready(&self) -> bool {
        let request = Request::get("/readyz").body(Vec::new()).unwrap();
        self.runtime.block_on(within(TIMEOUT, self.client.request_text(request))).is_ok()
    }

    /// Empty if the cluster does not have the resource.
    fn items(&self, path: &str) -> Vec<Value> {
        let list = self.read(path).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn read(&self, path: &str) -> Option<Value> {
        found(self.send("GET", path, "application/json", &Value::Null))
    }

    fn remove(&self, path: &str, options: &Value) {
        found(self.send("DELETE", path, "application/json", options));
    }

    fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value, RequestError> {
        let request = Request::builder().method(method).uri(path).header("Content-Type", content);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(body).unwrap();
        let text = self.runtime.block_on(within(TIMEOUT, self.client.request_text(request)))?;
        Ok(serde_json::from_str(&text).unwrap())
    }
}

/// Returns an object whose quantities are text: this version refuses to apply numbers.
fn with_text_quantities(value: &Value) -> Value {
    let as_text =
        |quantity: &Value| quantity.as_u64().map_or(quantity.clone(), |number| number.to_string().into());
    match value {
        Value::Object(keys) => keys
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("limits" | "requests", Value::Object(quantities)) => {
                    let texts =
                        quantities.iter().map(|(resource, quantity)| (resource.clone(), as_text(quantity)));
                    (key.clone(), Value::Object(texts.collect()))
                }
                _ => (key.clone(), with_text_quantities(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(with_text_quantities).collect(),
        other => other.clone(),
    }
}

/// Returns the answer of the API server, unless it has no such object.
fn found(answer: Result<Value, RequestError>) -> Option<Value> {
    match answer {
        Ok(object) => Some(object),
        Err(RequestError::Failed(Error::Api(status))) if status.code == 404 => None,
        Err(error) => panic!("{error}"),
    }
}
