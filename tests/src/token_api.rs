//! A fake of the Kubernetes API for token authentication: HTTP, TokenReview and SubjectAccessReview.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The server. It serves until it is dropped, or until [`TokenApi::fail`] is called.
#[derive(Debug)]
pub struct TokenApi {
    directory: TempDir,
    listener: TcpListener,
    asked: Arc<AtomicUsize>,
    /// The tokens of reviews.
    reviewed: Arc<Mutex<Vec<String>>>,
    echoes: Arc<AtomicU16>,
}

impl TokenApi {
    /// Starts a server with one valid token, of Prometheus, which is authorized for `GET /metrics` only.
    ///
    /// # Panics
    /// If it cannot listen.
    #[expect(clippy::new_without_default, reason = "it listens")]
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let reviewed = Arc::new(Mutex::new(Vec::new()));
        let echoes = Arc::new(AtomicU16::new(0));
        let (accepting, counter, echo) = (listener.try_clone().unwrap(), asked.clone(), echoes.clone());
        let tokens = reviewed.clone();
        thread::spawn(move || {
            for stream in accepting.incoming().map_while(Result::ok) {
                counter.fetch_add(1, Ordering::SeqCst);
                let echo = echo.load(Ordering::SeqCst);
                let tokens = tokens.clone();
                thread::spawn(move || serve(stream, echo, &tokens));
            }
        });
        // By host name, so that the client must resolve it.
        let server = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "fake", "user": "silkraild"}}],
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "users": [{"name": "silkraild", "user": {"token": "silkraild"}}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self { directory, listener, asked, reviewed, echoes }
    }

    /// Returns the path for `KUBECONFIG`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Returns the number of requests so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns the number of reviews of tokens that start so.
    ///
    /// # Panics
    /// If a thread of the server has panicked.
    pub fn reviews(&self, start: &str) -> usize {
        self.reviewed.lock().unwrap().iter().filter(|token| token.starts_with(start)).count()
    }

    /// Makes every later response have this status, and the text of the request as a JSON string in place of a review.
    pub fn echo(&self, status: u16) {
        self.echoes.store(status, Ordering::SeqCst);
    }

    /// Makes the server stop accepting connections.
    ///
    /// # Panics
    /// If the socket cannot be shut.
    pub fn fail(&self) {
        nix::sys::socket::shutdown(
            std::os::fd::AsRawFd::as_raw_fd(&self.listener),
            nix::sys::socket::Shutdown::Both,
        )
        .unwrap();
    }
}

/// Serves one request of a connection. If `echo` is not 0, the response has this status and repeats the request.
fn serve(mut stream: TcpStream, echo: u16, reviewed: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let (mut request, mut length) = (String::new(), 0);
    let _ = lines.read_line(&mut request);
    let mut is_silkraild = false;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_silkraild |= line.trim() == "authorization: bearer silkraild";
    }
    let mut body = vec![0; length];
    let _ = lines.read_exact(&mut body);
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = request.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    let status = match path {
        _ if !is_silkraild => 403,
        "/apis/authentication.k8s.io/v1/tokenreviews" => {
            reviewed.lock().unwrap().extend(review["spec"]["token"].as_str().map(str::to_owned));
            review["status"] = token_status(&review["spec"]);
            201
        }
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            review["status"] = json!({"allowed": is_allowed(&review["spec"])});
            201
        }
        _ => 404,
    };
    let (status, body) = match status {
        201 if echo > 0 => (echo, Value::String(String::from_utf8_lossy(&body).into_owned())),
        201 => (201, review),
        code => {
            let status = "Failure";
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "code": code}),
            )
        }
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} Fake\r\nContent-Type: application/json\r\nConnection: close\r\n");
    let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

const PROMETHEUS: &str = "system:serviceaccount:monitoring:prometheus";

fn token_status(spec: &Value) -> Value {
    match spec["token"].as_str() {
        Some("prometheus") => {
            json!({"authenticated": true, "user": {"username": PROMETHEUS, "groups": ["system:authenticated"]}})
        }
        // The response of a real API server.
        _ => json!({"user": {}, "error": "invalid bearer token"}),
    }
}

fn is_allowed(spec: &Value) -> bool {
    spec["user"] == PROMETHEUS
        && spec["groups"] == json!(["system:authenticated"])
        && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"})
}
