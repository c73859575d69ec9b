//! The daemon, as built.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

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
}

/// The executable: tests are in `target/<profile>/deps`.
///
/// # Panics
/// If it is not built.
pub fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap().join("silkraild");
    assert!(built.is_file(), "{} is not built: run hack/test, or cargo build -p silkraild", built.display());
    built
}

/// Runs it to its end.
///
/// # Panics
/// If it cannot be run.
pub fn run(args: &[&str]) -> Output {
    Command::new(executable()).args(args).output().unwrap()
}

impl Daemon {
    /// Starts it on a free port of this machine.
    ///
    /// # Panics
    /// If it does not say that it serves.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(Command::new(executable()).args(args))
    }

    /// Starts a command that ends in it.
    ///
    /// # Panics
    /// If it does not say that it serves.
    pub fn spawn(command: &mut Command) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--health.listen", "127.0.0.1:0"]);
        if !command.get_args().any(|argument| argument == "--node-name") {
            command.args(["--node-name", "lab"]);
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
            if let Some(addresses) = said_addresses(&log.lock().unwrap()) {
                break addresses;
            }
            assert!(Instant::now() < deadline, "the daemon does not serve: {}", log.lock().unwrap());
            thread::sleep(Duration::from_millis(20));
        };
        Self { child, address, health, log }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that talks to the network.
    ///
    /// # Panics
    /// If there is none.
    pub fn frontend(&self) -> u32 {
        let of = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(&of).unwrap();
        let [only] = children.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{of}: {children:?}; expected one frontend")
        };
        only.parse().unwrap()
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has logged.
    ///
    /// # Panics
    /// If a thread that read it did.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// What it answers to a request without a body: `GET /metrics`.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn ask(&self, request: &str, headers: &[(&str, &str)]) -> HttpReply {
        http::ask(self.address, &format!("{request} HTTP/1.1"), headers)
    }

    /// What it answers to a probe of the path.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn health(&self, path: &str) -> HttpReply {
        http::ask(self.health, &format!("GET {path} HTTP/1.1"), &[])
    }

    /// The metrics as of now, not of a collection that began before.
    pub fn scrape(&self) -> Scrape {
        self.scrape_after(SystemTime::now())
    }

    /// The metrics of a collection that began after this moment.
    ///
    /// # Panics
    /// If there are none within a minute: a first collection of hundreds of devices under strace takes its time.
    pub fn scrape_after(&self, moment: SystemTime) -> Scrape {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.ask("GET /metrics", &[]);
            if answer.status == 200 {
                let scrape = Scrape::parse(&answer.text());
                if scrape.number("rdma_exporter_snapshot_timestamp_seconds", &[]) > moment {
                    return scrape;
                }
            }
            assert!(Instant::now() < deadline, "no fresh reading within a minute: {}", answer.status);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its exit status, once it has ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Tells it to end, and returns its exit status and how long it took.
    ///
    /// # Panics
    /// If it cannot be told.
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

/// The address of its metrics, and the address of its health.
fn said_addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let line = log.lines().find(|line| line.contains("serving"))?;
    let of = |name: &str| line.split(name).nth(1)?.split_whitespace().next()?.parse().ok();
    Some((of("address=")?, of("health=")?))
}
