//! The daemon with an API server that is down, and without one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

/// A running daemon, killed on drop.
struct DaemonProcess {
    child: Child,
    address: String,
    /// The log until it served.
    startup_log: String,
    /// The log since then.
    log: Arc<Mutex<String>>,
}

impl DaemonProcess {
    fn start(root: &Path, arguments: &[&str], kubeconfig: Option<&Path>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silkraild"));
        command
            .args(["--listen=127.0.0.1:0", "--health.listen=127.0.0.1:0", "--node-name=gpu-07", "--root"])
            .arg(root)
            .args(arguments);
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").stderr(Stdio::piped());
        if let Some(path) = kubeconfig {
            command.env("KUBECONFIG", path);
        }
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut startup_log = String::new();
        let address = loop {
            assert!(stderr.read_line(&mut startup_log).unwrap() > 0, "the daemon has exited: {startup_log}");
            if let Some((_, address)) = startup_log.lines().last().unwrap().split_once("address=") {
                break address.to_owned();
            }
        };
        let log = Arc::new(Mutex::new(String::new()));
        let shared = log.clone();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|l| *shared.lock().unwrap() += &(l + "\n"))
        });
        Self { child, address, startup_log, log }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node's root with a directory for RDMA devices, but no device.
fn node() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("sys/class/infiniband")).unwrap();
    root
}

/// A kubeconfig file for an address.
fn kubeconfig(root: &Path, address: &str) -> std::path::PathBuf {
    let path = root.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {{name: a, context: {{cluster: a, user: a}}}}\n\
         clusters:\n- {{name: a, cluster: {{server: 'http://{address}'}}}}\nusers:\n- {{name: a, user: {{token: t}}}}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn without_an_api_server_it_serves_without_the_owners_collector() {
    let root = node();
    let daemon = DaemonProcess::start(root.path(), &[], None);
    assert!(daemon.startup_log.contains("no Kubernetes API is configured"), "{}", daemon.startup_log);
    let metrics = daemon.get("/metrics");
    assert!(metrics.contains("collector=\"pods\"") && !metrics.contains("collector=\"owners\""), "{metrics}");
}

#[test]
fn an_api_server_that_does_not_respond_delays_no_scrape() {
    let root = node();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(root.path(), &silent.local_addr().unwrap().to_string());
    let daemon = DaemonProcess::start(root.path(), &[], Some(&file));
    // The server has accepted the connection and never responds.
    let (_connection, _) = silent.accept().unwrap();
    assert!(daemon.get("/metrics").contains("collector=\"owners\""));
    assert!(daemon.get("/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn an_api_server_that_is_down_is_counted_and_logged_once() {
    let root = node();
    let file = kubeconfig(root.path(), "127.0.0.1:1");
    let daemon = DaemonProcess::start(root.path(), &[], Some(&file));
    let counted = |metrics: &str| metrics.contains("collector=\"owners\",reason=\"refused\"");
    // A snapshot younger than half a second is served again.
    let found = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        counted(&daemon.get("/metrics"))
    });
    assert!(found, "{}", daemon.get("/metrics"));
    let is_logged = || daemon.log.lock().unwrap().contains("os error 111");
    assert!((0..600).any(|_| is_logged() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
    let log = daemon.log.lock().unwrap();
    assert_eq!(log.matches("refused (os error 111)").count(), 1, "{log}");
    assert!(!log.contains("ERROR"), "errors logged by kube are suppressed: {log}");
}

#[test]
fn the_kubernetes_api_can_be_disabled() {
    let root = node();
    let file = kubeconfig(root.path(), "127.0.0.1:1");
    for option in ["--kubernetes=off", "--disable=owners"] {
        let daemon = DaemonProcess::start(root.path(), &[option], Some(&file));
        assert!(!daemon.startup_log.contains("workloads"), "{}", daemon.startup_log);
        assert!(!daemon.get("/metrics").contains("collector=\"owners\""));
    }
}

#[test]
fn a_missing_kubeconfig_is_logged_and_the_rest_works() {
    let root = node();
    let daemon = DaemonProcess::start(root.path(), &[], Some(&root.path().join("none")));
    assert!(daemon.startup_log.contains("KUBECONFIG: "), "{}", daemon.startup_log);
    assert!(daemon.get("/metrics").contains("collector=\"pods\""));
}
