//! A small fake of the Kubernetes API server: real HTTP, lists and watches of pods by node, discovery, single objects, and
//! configurable faults. It has only metadata, and refuses requests for more.

mod answers;
mod world;

use std::{convert::Infallible, sync::Arc};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

pub(crate) use world::ApiFault;
use world::ApiObjects;

/// A fake API server. Clones share its state.
#[derive(Clone)]
pub(crate) struct FakeApiServer {
    world: Arc<watch::Sender<ApiObjects>>,
}

impl FakeApiServer {
    /// Returns a server with some kinds but no objects, which does not listen yet.
    pub(crate) fn new() -> Self {
        let server = Self { world: Arc::new(watch::channel(ApiObjects::default()).0) };
        server.serve_kind("v1", "Pod", "pods", true);
        server.serve_kind("apps/v1", "ReplicaSet", "replicasets", true);
        server.serve_kind("apps/v1", "Deployment", "deployments", true);
        server.serve_kind("batch/v1", "Job", "jobs", true);
        server.serve_kind("batch/v1", "CronJob", "cronjobs", true);
        server
    }

    /// Listens on a loopback port. Returns the URL.
    pub(crate) async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        self.accept(listener, None);
        url
    }

    /// Accepts connections from the listener, with TLS if given.
    pub(crate) fn accept(&self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let server = self.clone();
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (server.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => server.answer(stream).await,
                        // A client that does not trust the certificate disconnects.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                server.answer(stream).await;
                            }
                        }
                    }
                });
            }
        });
    }

    async fn answer(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service =
            service_fn(
                |request| async move { Ok::<_, Infallible>(answers::to(&request, &self.world).await) },
            );
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    /// Adds a kind.
    pub(crate) fn serve_kind(&self, api_version: &str, kind: &str, plural: &str, namespaced: bool) {
        self.change(|world| {
            let kinds = world.groups.entry(api_version.to_owned()).or_default();
            kinds.push(json!({ "kind": kind, "name": plural, "namespaced": namespaced, "singularName": "", "verbs": ["get"] }));
            // As real servers do. Subresources must not be taken for the kind itself.
            kinds.push(json!({ "kind": kind, "name": format!("{plural}/status"), "namespaced": namespaced, "singularName": "", "verbs": ["get"] }));
        });
    }

    /// Adds an object at a path, like `apis/apps/v1/namespaces/ml/replicasets/web-1`.
    pub(crate) fn put(&self, path: &str, uid: &str, owners: Value) {
        let name = path.rsplit('/').next().unwrap();
        let metadata = json!({ "name": name, "uid": uid, "ownerReferences": owners });
        self.change(|world| drop(world.objects.insert(format!("/{path}"), metadata)));
    }

    /// Adds or changes a pod of a node.
    pub(crate) fn put_pod(&self, node: &str, name: &str, uid: &str, owners: Value) {
        self.put_pod_with(node, name, uid, json!({ "ownerReferences": owners }));
    }

    /// Adds or changes a pod with any metadata.
    pub(crate) fn put_pod_with(&self, node: &str, name: &str, uid: &str, more: Value) {
        self.change(|world| world.put_pod(node, name, uid, more));
    }

    /// Deletes a pod.
    pub(crate) fn delete_pod(&self, name: &str) {
        self.change(|world| world.delete_pod(name));
    }

    /// Sets the fault for all paths with this prefix; `None` removes it.
    pub(crate) fn fault(&self, path: &str, fault: Option<ApiFault>) {
        self.change(|world| match fault {
            Some(fault) => drop(world.faults.insert(format!("/{path}"), fault)),
            None => drop(world.faults.remove(&format!("/{path}"))),
        });
    }

    /// Requires a bearer token.
    pub(crate) fn demand(&self, token: &str) {
        self.change(|world| world.token = Some(token.to_owned()));
    }

    /// Ends all watches. Clients can resume them.
    pub(crate) fn close_watches(&self) {
        self.change(|world| world.epoch += 1);
    }

    /// Compacts all events: a watch from an older resourceVersion gets status 410.
    pub(crate) fn compact(&self) {
        self.change(ApiObjects::compact);
    }

    /// Returns the number of requests whose path and query contain the text.
    pub(crate) fn requests(&self, text: &str) -> usize {
        self.world.borrow().requests.iter().filter(|uri| uri.contains(text)).count()
    }

    fn change(&self, change: impl FnOnce(&mut ApiObjects)) {
        self.world.send_modify(change);
    }
}
