//! A fake Kubernetes API server with one node, whose status can be patched. What a real one does is tested in
//! `tests/tests/cluster_pools/node_condition.rs`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The server. It serves until the test's process ends.
#[derive(Debug)]
pub struct NodeApi {
    directory: TempDir,
    state: Arc<Mutex<NodeState>>,
}

#[derive(Debug)]
struct NodeState {
    node: Value,
    patches: Vec<Value>,
    is_forbidden: bool,
}

impl NodeApi {
    /// Starts a server with a node.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let ready = json!({"type": "Ready", "status": "True"});
        let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"conditions": [ready]}});
        let state = Arc::new(Mutex::new(NodeState { node, patches: Vec::new(), is_forbidden: false }));
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &served);
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "users": [{"name": "a", "user": {"token": "none"}}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self { directory, state }
    }

    /// Returns the path for `KUBECONFIG`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Returns the patches so far.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    pub fn patches(&self) -> Vec<Value> {
        self.state.lock().unwrap().patches.clone()
    }

    /// Returns a condition of the node.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    pub fn condition(&self, kind: &str) -> Option<Value> {
        let state = self.state.lock().unwrap();
        state.node["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind).cloned()
    }

    /// Refuses all later requests, or no more.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    pub fn forbid(&self, is_forbidden: bool) {
        self.state.lock().unwrap().is_forbidden = is_forbidden;
    }
}

/// Serves one request of a connection.
fn serve(mut stream: TcpStream, state: &Mutex<NodeState>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let head: Vec<String> =
        reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let header = |name: &str| {
        let of = |line: &&String| line.to_lowercase().starts_with(&format!("{name}: "));
        head.iter().find(of).and_then(|line| line.split(": ").nth(1)).unwrap_or_default().to_owned()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut body).unwrap();
    let mut state = state.lock().unwrap();
    let request = head.first().cloned().unwrap_or_default();
    let expected =
        format!("PATCH /api/v1/nodes/{}/status?", state.node["metadata"]["name"].as_str().unwrap());
    let is_strategic = header("content-type") == "application/strategic-merge-patch+json";
    let (status, reply) = match request.starts_with(&expected) && is_strategic {
        _ if state.is_forbidden => (403, failure(403, "nodes \"lab\" is forbidden")),
        false => (404, failure(404, &request)),
        true => {
            let patch: Value = serde_json::from_slice(&body).unwrap();
            state.merge(&patch);
            state.patches.push(patch);
            (200, state.node.clone())
        }
    };
    let reply = reply.to_string();
    let head = format!("HTTP/1.1 {status} Fake\r\nContent-Type: application/json\r\nConnection: close\r\n");
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{reply}", reply.len());
}

impl NodeState {
    /// Merges conditions by their type.
    fn merge(&mut self, patch: &Value) {
        let conditions = self.node["status"]["conditions"].as_array_mut().unwrap();
        for new in patch["status"]["conditions"].as_array().into_iter().flatten() {
            match conditions.iter_mut().find(|old| old["type"] == new["type"]) {
                Some(old) => old.as_object_mut().unwrap().extend(new.as_object().unwrap().clone()),
                None => conditions.push(new.clone()),
            }
        }
    }
}

fn failure(code: u16, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": "Forbidden",
        "message": message,
    })
}
