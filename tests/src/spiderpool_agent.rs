//! A fake of Spiderpool's agent: the requests of `silkrail-ipam` with `"store": "spiderpool"`, as the agent's OpenAPI document
//! defines them. A real agent needs Spiderpool's image, which is not in any package registry.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

/// The fields that a request to assign addresses must have.
const REQUIRED: [&str; 6] = ["containerID", "ifName", "netNamespace", "podNamespace", "podName", "podUID"];

/// The agent. It serves until the test's process ends.
#[derive(Debug)]
pub struct FakeSpiderpoolAgent {
    path: PathBuf,
    state: Arc<Mutex<AgentState>>,
}

#[derive(Debug, Default)]
struct AgentState {
    /// Addresses by pod UID and interface.
    assigned: BTreeMap<(String, String), String>,
    requests: Vec<(String, Value)>,
    /// What is answered instead: a status and a body; nothing if the status is 0.
    failure: Option<(u16, String)>,
}

impl FakeSpiderpoolAgent {
    /// Starts an agent that listens on a socket.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let state = Arc::new(Mutex::new(AgentState::default()));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || serve(stream, &state));
            }
        });
        Self { path: path.to_owned(), state }
    }

    /// Returns the path of its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers every request with this status and body; with the status 0 it does not answer.
    pub fn fails(&self, status: u16, body: &str) {
        self.state.lock().unwrap().failure = Some((status, body.to_owned()));
    }

    /// Answers requests again.
    pub fn recovers(&self) {
        self.state.lock().unwrap().failure = None;
    }

    /// Returns the addresses that are assigned.
    pub fn assigned(&self) -> Vec<String> {
        self.state.lock().unwrap().assigned.values().cloned().collect()
    }

    /// Returns the requests, each with its method and path, and its body.
    pub fn requests(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().requests.clone()
    }
}

fn serve(mut stream: UnixStream, state: &Mutex<AgentState>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    let _ = reader.read_line(&mut line);
    let request = line.rsplit_once(' ').map(|(request, _)| request.to_owned()).unwrap_or_default();
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) == 0 || header == "\r\n" {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut state = state.lock().unwrap();
    state.requests.push((request.clone(), body.clone()));
    let (status, answer) = match state.failure.clone() {
        Some((0, _)) => {
            drop(state);
            // Until the client gives up.
            let _ = reader.read(&mut [0]);
            return;
        }
        Some(failure) => failure,
        None => state.answer(&request, &body),
    };
    let head = format!("HTTP/1.0 {status} Fake\r\nContent-Type: application/json\r\n\r\n");
    let _ = stream.write_all((head + &answer).as_bytes());
}

impl AgentState {
    fn answer(&mut self, request: &str, body: &Value) -> (u16, String) {
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let key = (text("podUID"), text("ifName"));
        match request {
            "GET /v1/ipam/healthy" => (200, String::new()),
            "POST /v1/ipam/ip" => {
                if let Some(missing) =
                    REQUIRED.iter().find(|key| body[**key].as_str().is_none_or(str::is_empty))
                {
                    return (
                        422,
                        json!({"code": 602, "message": format!("{missing} in body is required")}).to_string(),
                    );
                }
                let next = format!("10.16.1.{}/24", 10 + self.assigned.len());
                let address = self.assigned.entry(key).or_insert(next).clone();
                let ifname = text("ifName");
                let mut routes = vec![json!({"ifName": ifname, "dst": "10.20.0.0/16", "gw": "10.16.1.1"})];
                if body["cleanGateway"] != true {
                    routes.push(json!({"ifName": ifname, "dst": "0.0.0.0/0", "gw": "10.16.1.1"}));
                }
                let ip = json!({
                    "version": 4, "address": address, "nic": ifname, "gateway": "10.16.1.1", "ipPool": "rail1",
                    "vlan": 0, "enableGatewayDetection": false, "enableIPConflictDetection": false,
                });
                (200, json!({"ips": [ip], "routes": routes}).to_string())
            }
            "DELETE /v1/ipam/ip" => {
                self.assigned.remove(&key);
                (200, String::new())
            }
            other => {
                (404, json!({"code": 404, "message": format!("path {other} was not found")}).to_string())
            }
        }
    }
}
