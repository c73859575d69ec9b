//! A fake Kubernetes API server: HTTP, and the resources that are needed to find the workload of a pod. Its objects never
//! change. The tests of changes and failures are in `pkg/workloads`.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kube_pod::KubePod;

/// An object that owns pods, or that owns an owner of pods.
#[derive(Debug)]
pub struct OwnedObject {
    /// API version, for example `apps/v1`.
    pub api_version: &'static str,
    /// Kind, for example `Deployment`.
    pub kind: &'static str,
    /// Plural name of the resource in paths, for example `deployments`.
    pub plural: &'static str,
    /// Namespace of the object.
    pub namespace: &'static str,
    /// Name of the object.
    pub name: &'static str,
    /// The owner of the object, if any.
    pub owner: Option<&'static Self>,
}

/// The server. It serves until the test's process ends.
#[derive(Debug)]
pub struct TestApiServer {
    directory: TempDir,
}

impl TestApiServer {
    /// Starts a server that has these pods on this node, and their workloads.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn of(node: &str, pods: &[(&KubePod, &'static OwnedObject)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let replies = Arc::new(ApiReplies::of(node, pods));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let replies = replies.clone();
                thread::spawn(move || replies.serve(stream));
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "fake", "user": "lab"}}],
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "users": [{"name": "lab", "user": {"token": "none"}}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self { directory }
    }

    /// Returns the path for `KUBECONFIG`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }
}

/// The response bodies by path.
#[derive(Debug)]
struct ApiReplies {
    node: String,
    objects: BTreeMap<String, Value>,
}

const PODS: &str = "/api/v1/pods";

impl ApiReplies {
    fn of(node: &str, pods: &[(&KubePod, &'static OwnedObject)]) -> Self {
        let items: Vec<_> = pods.iter().map(|(pod, owner)| partial(&metadata(pod, owner))).collect();
        let list = json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "1"},
            "items": items,
        });
        let mut replies = Self { node: node.to_owned(), objects: BTreeMap::from([(PODS.to_owned(), list)]) };
        for (_, owner) in pods {
            replies.add(owner);
        }
        replies
    }

    /// Adds a workload, its kind to the API resource list, and its owners.
    fn add(&mut self, workload: &'static OwnedObject) {
        let OwnedObject { api_version, kind, plural, namespace, name, owner } = workload;
        let group = format!("/apis/{api_version}");
        let metadata = json!({
            "name": name,
            "namespace": namespace,
            "uid": workload.uid(),
            "ownerReferences": owner.map(OwnedObject::reference).into_iter().collect::<Vec<_>>(),
        });
        self.objects.insert(format!("{group}/namespaces/{namespace}/{plural}/{name}"), partial(&metadata));
        let kinds = self.objects.entry(group).or_insert_with(
            || json!({"kind": "APIResourceList", "groupVersion": api_version, "resources": []}),
        );
        kinds["resources"].as_array_mut().unwrap().push(
            json!({"kind": kind, "name": plural, "namespaced": true, "singularName": "", "verbs": ["get"]}),
        );
        owner.iter().for_each(|owner| self.add(owner));
    }

    /// Serves one request of a connection.
    fn serve(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let request = lines.next().unwrap_or_default();
        let _ = lines.find(String::is_empty);
        let target = request.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if path == PODS && query.contains("watch=true") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            // The watch reports no event until the client closes the connection.
            let _ = stream.read(&mut [0]);
            return;
        }
        let selector = format!("fieldSelector=spec.nodeName%3D{}", self.node);
        let (status, body) = match self.objects.get(path) {
            Some(_) if path == PODS && !query.contains(&selector) => (400, failure(400)),
            Some(object) => (200, object.clone()),
            None => (404, failure(404)),
        };
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status} Fake\r\nContent-Type: application/json\r\nConnection: close\r\n");
        let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
    }
}

impl OwnedObject {
    fn uid(&self) -> String {
        format!("{}-{}", self.kind, self.name)
    }

    fn reference(&self) -> Value {
        let Self { api_version, kind, name, .. } = self;
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": self.uid(), "controller": true})
    }
}

fn metadata(pod: &KubePod, owner: &OwnedObject) -> Value {
    let KubePod { namespace, name, uid, .. } = pod;
    json!({"namespace": namespace, "name": name, "uid": uid, "ownerReferences": [owner.reference()]})
}

/// Returns an object with metadata only, which is all that silkraild requests.
fn partial(metadata: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code})
}
