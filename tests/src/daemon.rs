//! Runs of the built `silkraild` executable.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;
use testkit::wait_until;

use crate::{
    http::{self, HttpReply},
    scrape::Scrape,
};

/// A running `silkraild`, for as long as this value lives.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    address: SocketAddr,
    health: SocketAddr,
    log: Arc<Mutex<String>>,
    /// The directory of the file with counters, unless the command names one.
    _counters: TempDir,
}

/// The variable with the file in which the daemon keeps counters.
pub const COUNTERS_FILE: &str = "SILKRAILD_COUNTERS_FILE";

/// Returns the path of the executable: tests are in `target/<profile>/deps`, other programs in `target/<profile>`.
///
/// # Panics
/// If it is not built.
pub fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut built = test.ancestors().skip(1).take(2).map(|directory| directory.join("silkraild"));
    built
        .find(|built| built.is_file())
        .expect("silkraild is not built: run hack/test, or cargo build -p silkraild")
}

/// Runs `silkraild` until it exits.
///
/// # Panics
/// If it cannot be run.
pub fn run(args: &[&str]) -> Output {
    Command::new(executable()).args(args).output().unwrap()
}

impl Daemon {
    /// Starts `silkraild` on a free port of the loopback address.
    ///
    /// # Panics
    /// If it does not log that it serves within a minute.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(Command::new(executable()).args(args))
    }

    /// Starts a command that executes `silkraild`, for example `strace … silkraild`.
    ///
    /// # Panics
    /// If it does not log that it serves within a minute.
    pub fn spawn(command: &mut Command) -> Self {
        command.args(["--health.listen", "127.0.0.1:0"]);
        if !command.get_args().any(|argument| argument == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !command.get_args().any(|argument| argument == "--node-name") {
            command.args(["--node-name", "lab"]);
        }
        // In the lab, a collection by an emulated CPU can take longer than the default.
        let in_lab = env::var_os("SILKRAIL_LAB").is_some();
        if in_lab && !command.get_args().any(|argument| argument == "--device-timeout") {
            command.args(["--device-timeout", "30"]);
        }
        let counters = tempfile::tempdir().unwrap();
        if !command.get_envs().any(|(name, _)| name == COUNTERS_FILE) {
            command.env(COUNTERS_FILE, counters.path().join("counters.json"));
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let writer = log.clone();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                writer.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let (address, health) = loop {
            if let Some(addresses) = logged_addresses(&log.lock().unwrap()) {
                break addresses;
            }
            assert!(Instant::now() < deadline, "the daemon does not serve: {}", log.lock().unwrap());
            thread::sleep(Duration::from_millis(20));
        };
        Self { child, address, health, log, _counters: counters }
    }

    /// Returns the PID of the main process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the PID of the frontend, the process that serves HTTP.
    ///
    /// # Panics
    /// If there is none.
    pub fn frontend(&self) -> u32 {
        self.child_with("--frontend")
    }

    /// Returns the PID of the writer, the process that writes files.
    ///
    /// # Panics
    /// If there is none.
    pub fn writer(&self) -> u32 {
        self.child_with("--writer")
    }

    fn child_with(&self, option: &str) -> u32 {
        let file = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(&file).unwrap();
        let has_option = |pid: &&str| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split('\0').nth(1) == Some(option)
        };
        let found: Vec<_> = children.split_whitespace().filter(has_option).collect();
        let [only] = found[..] else { panic!("{file}: {children:?}; expected one with {option}") };
        only.parse().unwrap()
    }

    /// Returns the address of the metrics.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the log so far.
    ///
    /// # Panics
    /// If the thread that reads it has panicked.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until the log contains a text, and returns the log so far. A line can come after what it is about.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for_log(&self, text: &str) -> String {
        wait_until(&format!("the log contains {text:?}"), || self.log().contains(text));
        self.log()
    }

    /// Returns the response to a request without a body, for example `GET /metrics`.
    ///
    /// # Panics
    /// If there is no response.
    pub fn request(&self, request: &str, headers: &[(&str, &str)]) -> HttpReply {
        http::request(self.address, &format!("{request} HTTP/1.1"), headers)
    }

    /// Returns the response to a probe of the health address: `/healthz`, `/readyz`.
    ///
    /// # Panics
    /// If there is no response.
    pub fn health(&self, path: &str) -> HttpReply {
        http::request(self.health, &format!("GET {path} HTTP/1.1"), &[])
    }

    /// Returns the metrics of a collection that began after this call.
    pub fn scrape(&self) -> Scrape {
        self.scrape_after(SystemTime::now())
    }

    /// Returns the metrics of a collection that began after this time.
    ///
    /// # Panics
    /// If there are none within a minute, several times what the first collection of 256 devices takes in the lab.
    pub fn scrape_after(&self, moment: SystemTime) -> Scrape {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let response = self.request("GET /metrics", &[]);
            if response.status == 200 {
                let scrape = Scrape::parse(&response.text());
                if scrape.number("rdma_exporter_snapshot_timestamp_seconds", &[]) > moment {
                    return scrape;
                }
            }
            assert!(Instant::now() < deadline, "no new collection within a minute: {}", response.status);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns whether the daemon has exited.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the daemon exits, and returns its exit status.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends SIGTERM, and returns the exit status and the time until the exit.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn terminate(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let status = Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        assert!(status.success());
        (self.child.wait().unwrap().code(), began.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
    }
}

/// Returns the addresses of the metrics and of the health probes, from the log line `serving`.
fn logged_addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line = log.lines().find(|line| line.contains("serving"))?;
    let value = |name: &str| line.split(name).nth(1)?.split_whitespace().next()?.parse().ok();
    Some((value("address=")?, value("health=")?))
}
