//! Measures how soon a kubelet that restarts gets its resources again. `hack/bench --kubelet` builds silkraild and starts this.
//!
//! The kubelet is a double that speaks the API of device plugins. The time is from its start, which deletes all sockets, to its
//! first list of devices, for each of the resources.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use bench::race::Durations;
use kubelet_api::deviceplugin::Empty;
use kubelet_double::Kubelet;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

/// Limit of `--check`: the median until all resources are registered and listed.
const AT_MOST: Duration = Duration::from_millis(100);
const RESOURCES: usize = 8;
/// Delay between restarts.
const PAUSE: Duration = Duration::from_millis(200);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A running silkraild.
struct Daemon(Child);

impl Daemon {
    fn start(daemon: &Path, directory: &TempDir) -> Result<Self> {
        let resource = |number: usize| json!({"resourceName": format!("vf{number}"), "selectors": {"pfNames": [format!("p{number}")]}});
        let resources: Vec<Value> = (0..RESOURCES).map(resource).collect();
        let file = directory.path().join("resources.json");
        fs::write(&file, json!({"resourceList": resources}).to_string())?;
        let mut command = Command::new(daemon);
        command.args(["--listen", "127.0.0.1:0", "--health.listen", "127.0.0.1:0", "--kubernetes", "off"]);
        command.args(["--node-name", "bench", "--state-dir"]).arg(directory.path());
        command
            .arg("--device-plugin")
            .arg(file)
            .arg("--device-plugin.dir")
            .arg(directory.path().join("kubelet"));
        Ok(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the kubelet, and returns it with the time until it has the lists of all resources.
async fn restart(directory: &Path) -> Result<(Kubelet, Duration)> {
    let start = Instant::now();
    let mut kubelet = Kubelet::start(directory, 0);
    for _ in 0..RESOURCES {
        let endpoint = kubelet.registration().await.endpoint;
        let mut client = kubelet.plugin(&endpoint).await;
        let mut lists = client.list_and_watch(Empty {}).await?.into_inner();
        lists.message().await?.ok_or("the stream of devices has ended")?;
    }
    Ok((kubelet, start.elapsed()))
}

async fn run(daemon: PathBuf, rounds: usize, as_json: bool) -> Result<Duration> {
    let directory = tempfile::tempdir()?;
    let sockets = directory.path().join("kubelet");
    let (mut kubelet, _daemon) = (Kubelet::start(&sockets, 0), Daemon::start(&daemon, &directory)?);
    for _ in 0..RESOURCES {
        kubelet.registration().await;
    }
    let mut times = Vec::new();
    for _ in 0..rounds {
        sleep(PAUSE).await;
        kubelet.stop();
        let (next, time) = restart(&sockets).await?;
        kubelet = next;
        times.push(time);
    }
    let times = Durations::from(times);
    let [median, p95] = [times.median(), times.p95()].map(|time| time.as_secs_f64() * 1000.0);
    if as_json {
        println!("{}", json!({"resources": RESOURCES, "rounds": rounds, "medianMs": median, "p95Ms": p95}));
    } else {
        println!("{RESOURCES} resources after a restart of the kubelet, {rounds} rounds, ms");
        println!(
            "  registered and listed   p50 {median:.1}   p95 {p95:.1} (p50 at most {})",
            AT_MOST.as_millis()
        );
    }
    Ok(times.median())
}

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let daemon = args.next().map(PathBuf::from);
    let rest: Vec<_> = args.collect();
    let has = |name: &str| rest.iter().any(|argument| argument == name);
    let rounds =
        rest.iter().position(|argument| argument == "--rounds").and_then(|at| rest.get(at + 1)?.parse().ok());
    let (Some(daemon), Ok(runtime)) = (daemon, tokio::runtime::Runtime::new()) else {
        eprintln!("usage: bench-kubelet SILKRAILD [--rounds N] [--json] [--check]");
        return ExitCode::from(2);
    };
    match runtime.block_on(run(daemon, rounds.unwrap_or(40), has("--json"))) {
        Ok(median) if has("--check") && median > AT_MOST => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-kubelet: {error}");
            ExitCode::FAILURE
        }
    }
}
