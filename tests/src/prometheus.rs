//! A real Prometheus, from Debian's package `prometheus`, with the configuration and rules of `conf/prometheus`.

use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{conf, http};

/// The job of `conf/prometheus/prometheus.yml` with static targets.
const JOB: &str = "silkraild-units";

/// The scrape interval. A scrape must not take longer: that of the whole lab takes 0.6 s, the first twice that, and several times as
/// long if other machines use the CPUs.
const SCRAPE: &str = "5s";

/// The timeout of the start, in a guest that shares two CPUs with others.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of a program of the package, in `PATH` or in the directory that `hack/test` installs it to.
///
/// # Panics
/// If it does not exist.
pub fn program(name: &str) -> PathBuf {
    let built = env::current_exe().unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(built.ancestors().map(|directory| directory.join("tools/bin")))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is neither in PATH nor in target/tools/bin: hack/test fetches it"))
}

/// Runs `promtool check metrics` on an exposition, and returns its output.
///
/// # Panics
/// If it cannot be run.
pub fn checked(exposition: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), exposition).unwrap();
    let input = fs::File::open(file.path()).unwrap();
    Command::new(program("promtool")).args(["check", "metrics"]).stdin(input).output().unwrap()
}

/// A running Prometheus, for as long as this value lives.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

/// A series and its value at the time of a query.
#[derive(Debug)]
pub struct QueriedSample {
    /// Labels, including `__name__`.
    pub labels: Value,
    /// Value at the time of the query.
    pub value: f64,
}

impl Prometheus {
    /// Starts a Prometheus with the example configuration, which scrapes a silkraild every few seconds.
    ///
    /// # Panics
    /// If it does not become ready.
    pub fn scraping(target: SocketAddr) -> Self {
        Self::with(&configuration(target))
    }

    /// Starts a Prometheus with this configuration, which may refer to `rules.yml`.
    ///
    /// # Panics
    /// If it does not become ready.
    pub fn with(configuration: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // JSON is YAML.
        fs::write(directory.path().join("prometheus.yml"), configuration.to_string()).unwrap();
        fs::write(directory.path().join("rules.yml"), conf::text("prometheus/rules.yml")).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let address = http::own_address();
        let child = Command::new(program("prometheus"))
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut started = Self { child, address, directory };
        started.wait();
        started
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + QUERY_TIMEOUT;
        let ready = |address| {
            TcpStream::connect(address).is_ok()
                && http::request(address, "GET /-/ready HTTP/1.0", &[]).status == 200
        };
        while !ready(self.address) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "Prometheus has ended: {ended:?}");
            assert!(Instant::now() < deadline, "Prometheus is not ready after {QUERY_TIMEOUT:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Evaluates an expression, and returns its series.
    ///
    /// # Panics
    /// If the expression cannot be evaluated.
    pub fn query(&self, expression: &str) -> Vec<QueriedSample> {
        let data = self.get("query", &[("query", expression)]);
        assert_eq!(data["resultType"], "vector", "{expression}");
        let sample = |one: &Value| QueriedSample {
            labels: one["metric"].clone(),
            value: one["value"][1].as_str().unwrap().parse().unwrap(),
        };
        data["result"].as_array().unwrap().iter().map(sample).collect()
    }

    /// Returns the values of a label of the selected series.
    ///
    /// # Panics
    /// If the selector is invalid.
    pub fn label_values(&self, selector: &str, label: &str) -> Vec<String> {
        let data = self.get(&format!("label/{label}/values"), &[("match[]", selector)]);
        data.as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    }

    /// Returns the data of a request to the HTTP API, for example of `rules` or `targets`.
    ///
    /// # Panics
    /// If the request fails.
    pub fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let pairs: Vec<_> =
            parameters.iter().map(|(name, value)| format!("{name}={}", http::escaped(value))).collect();
        let request = format!("GET /api/v1/{path}?{} HTTP/1.0", pairs.join("&"));
        let response = http::request(self.address, &request, &[]);
        let mut reply: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(reply["status"], "success", "{path} {parameters:?}: {reply}");
        reply["data"].take()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            eprintln!("Prometheus' log:\n{log}");
        }
    }
}

/// Returns the example configuration with short intervals, and with this target only.
fn configuration(target: SocketAddr) -> Value {
    let mut configuration = conf::yaml("prometheus/prometheus.yml").remove(0);
    configuration["global"] = json!({"scrape_interval": SCRAPE, "evaluation_interval": "1s"});
    let jobs = configuration["scrape_configs"].as_array_mut().unwrap();
    jobs.retain(|job| job["job_name"] == JOB);
    let [job] = &mut jobs[..] else { panic!("conf/prometheus/prometheus.yml has no job {JOB}") };
    job["static_configs"] = json!([{"targets": [target.to_string()], "labels": {"cluster": "lab"}}]);
    configuration
}
