//! The daemon with an API server that is not there, and with none.

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

/// A running daemon, which ends with the test.
struct DaemonProcess {
    child: Child,
    address: String,
    /// What it said before it served.
    said: String,
    /// What it says since.
    says: Arc<Mutex<String>>,
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
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            assert!(log.read_line(&mut said).unwrap() > 0, "it ended: {said}");
            if let Some((_, address)) = said.lines().last().unwrap().split_once("address=") {
                break address.to_owned();
            }
        };
        let says = Arc::new(Mutex::new(String::new()));
        let ear = says.clone();
        std::thread::spawn(move || {
            log.lines().map_while(Result::ok).for_each(|l| *ear.lock().unwrap() += &(l + "\n"))
        });
        Self { child, address, said, says }
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
fn without_an_api_server_it_serves_and_has_no_collector_of_owners() {
    let root = node();
    let daemon = DaemonProcess::start(root.path(), &[], None);
    assert!(daemon.said.contains("no Kubernetes API"), "{}", daemon.said);
    let metrics = daemon.get("/metrics");
    assert!(metrics.contains("collector=\"pods\"") && !metrics.contains("collector=\"owners\""), "{metrics}");
}

#[test]
fn an_api_server_that_takes_the_connection_and_says_nothing_delays_no_scrape() {
    let root = node();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = kubeconfig(root.path(), &mute.local_addr().unwrap().to_string());
    let daemon = DaemonProcess::start(root.path(), &[], Some(&file));
    // It has the question by now, and never gets an answer.
    let (_connection, _) = mute.accept().unwrap();
    assert!(daemon.get("/metrics").contains("collector=\"owners\""));
    assert!(daemon.get("/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn an_api_server_that_is_down_is_counted_and_told_once() {
    let root = node();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = kubeconfig(root.path(), &address.to_string());
    let daemon = DaemonProcess::start(root.path(), &[], Some(&file));
    let counted = |metrics: &str| metrics.contains("collector=\"owners\",reason=\"refused\"");
    // A reading younger than half a second is shown again.
    let found = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        counted(&daemon.get("/metrics"))
    });
    assert!(found, "{}", daemon.get("/metrics"));
    let is_told = || daemon.says.lock().unwrap().contains("os error 111");
    assert!((0..600).any(|_| is_told() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
    let says = daemon.says.lock().unwrap();
    assert_eq!(says.matches("refused (os error 111)").count(), 1, "{says}");
    assert!(!says.contains("ERROR"), "kube is quiet: {says}");
}

#[test]
fn kubernetes_can_be_left_alone() {
    let root = node();
    let file = kubeconfig(root.path(), "127.0.0.1:1");
    for option in ["--kubernetes=off", "--disable=owners"] {
        let daemon = DaemonProcess::start(root.path(), &[option], Some(&file));
        assert!(!daemon.said.contains("workloads"), "{}", daemon.said);
        assert!(!daemon.get("/metrics").contains("collector=\"owners\""));
    }
}

#[test]
fn a_kubeconfig_that_is_not_there_is_said_and_the_rest_works() {
    let root = node();
    let daemon = DaemonProcess::start(root.path(), &[], Some(&root.path().join("none")));
    assert!(daemon.said.contains("KUBECONFIG: "), "{}", daemon.said);
    assert!(daemon.get("/metrics").contains("collector=\"pods\""));
}
