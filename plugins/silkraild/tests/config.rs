//! The configuration file, the log, and the manual pages of the daemon, as a process.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{self, Child, Command, Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

fn silkraild() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silkraild"));
    for name in ["SILKRAILD_CONFIG_FILE", "SILKRAILD_COUNTERS_FILE", "NODE_NAME"] {
        command.env_remove(name);
    }
    command
}

fn check(file: &str) -> Output {
    silkraild().args(["--config.file", file, "--config.check"]).output().unwrap()
}

fn example() -> String {
    format!("{}/../../conf/silkraild/silkraild.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// A daemon whose options are in a file. Its node has no RDMA.
struct Daemon {
    _node: tempfile::TempDir,
    child: Child,
    health: SocketAddr,
}

/// An address that no other process and no connection gets: a loopback address of this process, and a port below those of
/// connections.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(30_000);
    let [_, high, middle, low] = process::id().to_be_bytes();
    (Ipv4Addr::new(127, 64 | high, middle, low), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

impl Daemon {
    fn start(log: &str) -> Self {
        let node = tempfile::tempdir().unwrap();
        let (listen, health) = (own_address(), own_address());
        let root = node.path().display();
        let text = format!(
            "listen: {listen}\nhealth.listen: {health}\nroot: {root}\nstate-dir: {root}/run\n\
             counters.file: {root}/counters.json\nkubernetes: 'off'\n{log}"
        );
        let file = node.path().join("silkraild.yaml");
        fs::write(&file, text).unwrap();
        let child = silkraild().env("SILKRAILD_CONFIG_FILE", &file).stderr(Stdio::piped()).spawn().unwrap();
        Self { _node: node, child, health }
    }

    /// Waits until the frontend serves the port of the file.
    fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(self.health).is_err() {
            assert!(Instant::now() < deadline, "nothing listens on the port");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the reply to a probe.
    fn probe(&self) -> String {
        let mut probe = TcpStream::connect(self.health).unwrap();
        probe.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
        let mut reply = String::new();
        probe.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Ends the daemon, and returns its log; if it is known to contain a text, after that was logged.
    fn end_after(mut self, text: Option<&str>) -> String {
        let (mut stderr, mut log) = (BufReader::new(self.child.stderr.take().unwrap()), String::new());
        while text.is_some_and(|text| !log.contains(text)) {
            assert!(stderr.read_line(&mut log).unwrap() > 0, "the log has ended: {log}");
        }
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{log}");
        log
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_daemon_has_the_options_of_its_file_and_logs_json() {
    let mut daemon = Daemon::start("log.format: json\n");
    let mut log = BufReader::new(daemon.child.stderr.take().unwrap());
    let serving = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log has ended");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        assert!(message["time"].as_str().unwrap().ends_with('Z'), "{line}");
        if message["msg"] == "serving" {
            break message;
        }
    };
    assert_eq!((&serving["level"], &serving["tls"]), (&"INFO".into(), &false.into()));
    assert_eq!(serving["health"], daemon.health.to_string());
    let reply = daemon.probe();
    assert!(reply.starts_with("HTTP/1.0 200") || reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[test]
fn messages_below_the_level_are_not_logged() {
    for (level, is_logged) in [("error", false), ("warn", false), ("info", true), ("debug", true)] {
        let daemon = Daemon::start(&format!("log.level: {level}\n"));
        daemon.wait();
        // The port is open before the message is written; a probe is answered after it.
        daemon.probe();
        let log = daemon.end_after(is_logged.then_some("serving"));
        assert_eq!(log.contains("serving"), is_logged, "{level}: {log}");
    }
}

#[test]
fn a_failure_is_logged_in_the_format_of_the_log() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let run = |format: &str| {
        let counters = tempfile::tempdir().unwrap();
        let file = counters.path().join("counters.json");
        let output = silkraild()
            .args([
                "--listen",
                &listen,
                "--health.listen=127.0.0.1:0",
                "--kubernetes=off",
                "--log.format",
                format,
            ])
            .arg("--counters.file")
            .arg(file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("text").contains(&format!("silkraild: cannot listen on {listen}")));
    let json = run("json");
    let errors: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_failure = |error: &&Value| error["level"] == "ERROR";
    let failure = errors.iter().find(is_failure).unwrap_or_else(|| panic!("{json}"));
    assert!(failure["msg"].as_str().unwrap().starts_with("cannot listen on"), "{json}");
}

#[test]
fn the_environment_has_priority_over_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "counters.file: /a\nnode-name: a\n").unwrap();
    let run = |more: &[&str]| {
        let mut command = silkraild();
        command.arg("--config.file").arg(file.path()).arg("--config.check").args(more);
        let output = command.env("NODE_NAME", "b").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let options = run(&[]);
    assert!(options.contains("counters.file: /a\n") && options.contains("node-name: b\n"), "{options}");
    assert!(run(&["--node-name=c"]).contains("node-name: c\n"));
}

#[test]
fn the_example_is_valid_and_its_commented_options_exist() {
    let output = check(&example());
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(example()).unwrap();
    // Each commented option, with its value, in a file of its own.
    let options: Vec<_> = text.lines().filter_map(|line| line.strip_prefix('#')).collect();
    let options: Vec<_> = options.into_iter().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(options.len(), 5, "{options:?}");
    for option in options {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), option).unwrap();
        // Files that an option names need not exist here.
        let output = silkraild().arg("--config.file").arg(file.path()).arg("--once").output().unwrap();
        assert!(output.status.success(), "{option}: {output:?}");
    }
}

#[test]
fn an_invalid_file_is_wrong_usage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "lisen: 127.0.0.1:1\n").unwrap();
    let path = file.path().to_str().unwrap();
    let output = check(path);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with(&format!("silkraild: {path}: lisen: unknown key; expected one of ")),
        "{error}"
    );
    // An option that names an invalid file is an error.
    fs::write(file.path(), "web.config.file: /nonexistent/web.yaml\n").unwrap();
    assert_eq!(check(path).status.code(), Some(1));
}

#[test]
fn every_program_has_a_manual_page_in_section_8() {
    let directory = tempfile::tempdir().unwrap();
    let output = silkraild().arg("man").arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| fs::read_to_string(Path::new(directory.path()).join(name)).unwrap();
    let text = page("silkraild.8");
    for part in [".TH silkraild 8", "config.file", "log.format", "SILKRAILD_CONFIG_FILE", ".SH EXIT STATUS"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("frontend"), "a hidden option");
    for name in ["ipam", "ipam-controller", "ipam-release-node", "networks"] {
        assert!(page(&format!("silkraild-{name}.8")).contains(&format!(".TH silkraild-{name} 8")), "{name}");
    }
}
