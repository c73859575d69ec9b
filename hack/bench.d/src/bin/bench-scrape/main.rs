//! Compares a scrape of 256 RDMA devices in 64 namespaces with a C program that makes only the netlink calls, in the lab.
//!
//! `hack/bench --scrape` builds the measured programs and starts this one there. The devices are simulated: the costs are
//! those of the kernel's code around them, without firmware.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program prints its results")]

mod client;
mod devices;

use std::{
    env,
    error::Error,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use bench::secure::TlsSetup;
use serde_json::json;

use client::{KeptConnection, get};
use devices::QueuePairs;

/// Limit of `--check`: the maximum ratio of a scrape to the floor.
const AT_MOST_FLOORS: f64 = 2.0;
const DEVICES: usize = 256;
const NAMESPACES: usize = 64;
/// Queue pairs of the pods, as of a large job.
const QUEUE_PAIRS: usize = 20_480;
/// Limit of `--check`: the maximum ratio of a scrape as Prometheus makes it over TLS to the same without.
const AT_MOST_PLAIN: f64 = 1.2;
const ADDRESS: &str = "127.0.0.1:9879";
const SECURE: &str = "127.0.0.1:9878";
/// The port of the first other build.
const FIRST_OTHER_PORT: u16 = 9880;
/// Delay between scrapes. silkraild reuses a snapshot that is less than half a second old.
const PAUSE: Duration = Duration::from_millis(700);
/// The same with queue pairs, whose lists silkraild uses for some collections: a round scrapes each daemon twice with four delays,
/// which makes Prometheus' interval of 15 s.
const PAUSE_OF_LISTS: Duration = Duration::from_millis(7500);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct BenchScrapeArgs {
    daemon: PathBuf,
    floor: PathBuf,
    /// Other builds of the daemon.
    against: Vec<PathBuf>,
    rounds: usize,
    json: bool,
    check: bool,
}

/// The queue pairs of a measurement.
enum Workload {
    /// None.
    Idle,
    /// The same at each scrape.
    QueuePairs,
    /// More of them at each scrape: silkraild lists those of each device again.
    Changing(QueuePairs),
}

impl Workload {
    fn pause(&self) -> Duration {
        if matches!(self, Self::QueuePairs) { PAUSE_OF_LISTS } else { PAUSE }
    }

    /// Prepares the next scrape.
    fn next(&mut self) -> Result<()> {
        sleep(self.pause());
        if let Self::Changing(queue_pairs) = self { queue_pairs.add_one_each() } else { Ok(()) }
    }

    /// Whether the floor lists objects, as silkraild does.
    fn has_lists(&self) -> bool {
        !matches!(self, Self::Idle)
    }
}

/// The results for one kind of devices, in milliseconds.
struct ScrapeTimes {
    floor: f64,
    scrape: f64,
    /// The longest scrape.
    longest: f64,
    /// The same over TLS, with its handshake.
    secure: f64,
    /// As Prometheus scrapes: compressed, over a persistent connection.
    gzip: f64,
    /// The same over TLS.
    gzip_secure: f64,
    /// An uncompressed scrape of each other build.
    against: Vec<f64>,
    lines: usize,
    bytes: usize,
    /// Queue pairs of pods in a scrape.
    queue_pairs: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-scrape: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the measurements. Returns whether the check passes, or true without `--check`.
fn run() -> Result<bool> {
    let options = BenchScrapeArgs::read()?;
    progress(&format!("creating {DEVICES} devices in {NAMESPACES} namespaces"));
    devices::create()?;
    devices::move_to_pods()?;
    progress("measuring every standard counter");
    let all = measure(&options, &mut Workload::Idle)?;
    // Firmware refuses the error counters of most VFs of mlx5; silkraild does not read them again after the first refusal.
    devices::set_all("port_counters_refuse", "Y")?;
    progress("measuring VFs");
    let vfs = measure(&options, &mut Workload::Idle)?;
    progress(&format!("creating {QUEUE_PAIRS} queue pairs"));
    let queue_pairs = QueuePairs::create()?;
    progress("measuring with queue pairs");
    let busy = measure(&options, &mut Workload::QueuePairs)?;
    progress("measuring with queue pairs whose number changes");
    let changing = measure(&options, &mut Workload::Changing(queue_pairs))?;
    let holds = [&vfs, &busy, &changing].iter().all(|times| times.ratio() <= AT_MOST_FLOORS)
        && busy.queue_pairs == QUEUE_PAIRS
        && vfs.gzip_secure() <= AT_MOST_PLAIN;
    if options.json {
        println!(
            "{}",
            json!({
                "all_counters": all.json(),
                "as_vfs": vfs.json(),
                "with_queue_pairs": busy.json(),
                "with_new_queue_pairs": changing.json(),
                "rounds": options.rounds,
            })
        );
    } else {
        println!("scrape of {DEVICES} devices in {NAMESPACES} namespaces, {} rounds, ms", options.rounds);
        println!(
            "{:<34}{:>8}{:>9}{:>8}{:>9}{:>8}{:>9}{:>9}{:>8}{:>8}{:>11}",
            "", "floor", "scrape", "ratio", "by TLS", "ratio", "gzip", "by TLS", "ratio", "lines", "bytes"
        );
        println!("{:<34}{all}", "  every standard counter, by sysfs");
        all.print_others(&options.against);
        println!(
            "{:<34}{vfs} (at most {AT_MOST_FLOORS}, and {AT_MOST_PLAIN} with gzip)",
            "  as VFs: firmware refuses 13 of 21"
        );
        vfs.print_others(&options.against);
        println!(
            "{:<34}{busy} (at most {AT_MOST_FLOORS}), at most {:.0} ms",
            format!("  with {} queue pairs", busy.queue_pairs),
            busy.longest
        );
        busy.print_others(&options.against);
        println!("{:<34}{changing} (at most {AT_MOST_FLOORS})", "  and one more on each device");
        changing.print_others(&options.against);
    }
    Ok(holds || !options.check)
}

/// Shows what a run of many minutes is doing.
fn progress(what: &str) {
    eprintln!("bench-scrape: {what}");
}

impl BenchScrapeArgs {
    fn read() -> Result<Self> {
        let mut args = env::args_os().skip(1);
        let (daemon, floor) = (
            args.next().ok_or("missing argument: the daemon")?.into(),
            args.next().ok_or("missing argument: the floor program")?.into(),
        );
        let mut options = Self { daemon, floor, against: Vec::new(), rounds: 30, json: false, check: false };
        while let Some(argument) = args.next() {
            match argument.to_str() {
                Some("--rounds") => {
                    let rounds = args.next().and_then(|rounds| rounds.to_str()?.parse().ok());
                    options.rounds = rounds.ok_or("--rounds: expected a number")?;
                }
                Some("--against") => {
                    options.against.push(args.next().ok_or("--against: expected a file")?.into());
                }
                Some("--json") => options.json = true,
                Some("--check") => options.check = true,
                _ => return Err(format!("unknown argument {}", argument.display()).into()),
            }
        }
        Ok(options)
    }
}

/// A running daemon, which is killed on drop.
struct BenchDaemon(Child);

impl BenchDaemon {
    fn start(program: &PathBuf, address: &str, secure: Option<&TlsSetup>) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["--listen", address, "--health.listen", "127.0.0.1:0"]);
        command.args(["--device-timeout", "60", "--kubernetes", "off"]);
        if let Some(secure) = secure {
            command.arg("--web.config.file").arg(secure.file());
        }
        let daemon = Self(command.stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !get(address, secure).is_ok_and(|(_, text)| text.contains("rdma_device_info{")) {
            if Instant::now() > deadline {
                return Err("the daemon does not respond".into());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(daemon)
    }
}

impl Drop for BenchDaemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures the floor, a scrape of one daemon and a scrape over TLS of another in each round. Returns the medians.
fn measure(options: &BenchScrapeArgs, workload: &mut Workload) -> Result<ScrapeTimes> {
    let lists = workload.has_lists();
    let secure = TlsSetup::new()?;
    let daemons = [
        BenchDaemon::start(&options.daemon, ADDRESS, None)?,
        BenchDaemon::start(&options.daemon, SECURE, Some(&secure))?,
    ];
    let others = options.against.iter().zip(FIRST_OTHER_PORT..);
    let others = others.map(|(program, port)| {
        let address = format!("127.0.0.1:{port}");
        Ok((BenchDaemon::start(program, &address, None)?, address))
    });
    let others: Vec<(BenchDaemon, String)> = others.collect::<Result<_>>()?;
    let mut other_times = vec![Vec::new(); others.len()];
    let mut kept = KeptConnection::open(ADDRESS, None)?;
    let mut kept_secure = KeptConnection::open(SECURE, Some(&secure))?;
    let mut times: [Vec<f64>; 5] = Default::default();
    let mut last = String::new();
    for _ in 0..options.rounds {
        let [floors, scrapes, secures, gzips, gzip_secures] = &mut times;
        workload.next()?;
        floors.push(floor(options, lists)?);
        let (time, text) = get(ADDRESS, None)?;
        scrapes.push(time);
        last = text;
        for ((_, address), times) in others.iter().zip(&mut other_times) {
            workload.next()?;
            floor(options, lists)?; // as before a scrape of the first build
            times.push(get(address, None)?.0);
        }
        workload.next()?;
        secures.push(get(SECURE, Some(&secure))?.0);
        workload.next()?;
        gzips.push(kept.time_scrape()?);
        workload.next()?;
        gzip_secures.push(kept_secure.time_scrape()?);
    }
    drop((daemons, others));
    let found = last.matches("\nrdma_device_info{").count();
    if found != DEVICES {
        return Err(format!("expected {DEVICES} devices in a scrape, got {found}").into());
    }
    let lines = last.lines().filter(|line| !line.starts_with('#')).count();
    let longest = times[1].iter().copied().fold(0.0, f64::max);
    let queue_pairs = queue_pairs(&last);
    let [floor, scrape, secure, gzip, gzip_secure] = times.map(median);
    let against = other_times.into_iter().map(median).collect();
    let bytes = last.len();
    Ok(ScrapeTimes { floor, scrape, longest, secure, gzip, gzip_secure, against, lines, bytes, queue_pairs })
}

/// Returns the number of queue pairs of pods.
fn queue_pairs(text: &str) -> usize {
    let values = text.lines().filter(|line| line.starts_with("rdma_pod_queue_pairs{"));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

/// Returns the median of three rounds, since the first includes the start of the program.
fn floor(options: &BenchScrapeArgs, lists: bool) -> Result<f64> {
    let namespaces = (0..NAMESPACES).map(|number| format!("/run/netns/pod-{number}"));
    let output =
        Command::new(&options.floor).args(["3", if lists { "1" } else { "0" }]).args(namespaces).output()?;
    let text = String::from_utf8(output.stdout)?;
    let round = |line: &str| -> Option<f64> {
        let (time, devices) = line.split_once(' ')?;
        (devices == DEVICES.to_string()).then(|| time.parse().ok())?
    };
    let rounds: Vec<f64> = text.lines().filter_map(round).collect();
    if rounds.len() == 3 {
        Ok(median(rounds) / 1e6)
    } else {
        Err(format!("unexpected output of the floor program: {text:?}").into())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

impl ScrapeTimes {
    fn ratio(&self) -> f64 {
        self.scrape / self.floor
    }

    /// Returns the ratio of a scrape over TLS to one without.
    fn secure(&self) -> f64 {
        self.secure / self.scrape
    }

    /// Returns the same ratio for compressed scrapes over persistent connections.
    fn gzip_secure(&self) -> f64 {
        self.gzip_secure / self.gzip
    }

    /// Prints the times of the other builds.
    fn print_others(&self, builds: &[PathBuf]) {
        for (build, time) in builds.iter().zip(&self.against) {
            let (ratio, factor) = (time / self.floor, time / self.scrape);
            println!("    {}: {time:.1}, ratio {ratio:.2}, {factor:.2} x this build", build.display());
        }
    }

    fn json(&self) -> serde_json::Value {
        let Self { floor, scrape, longest, secure, gzip, gzip_secure, against, lines, bytes, queue_pairs } =
            self;
        json!({"floor_ms": floor, "scrape_ms": scrape, "ratio": self.ratio(), "tls_ms": secure,
            "tls_ratio": self.secure(), "gzip_ms": gzip, "gzip_tls_ms": gzip_secure,
            "gzip_tls_ratio": self.gzip_secure(), "against_ms": against, "lines": lines, "bytes": bytes, "longest_ms": longest, "queue_pairs": queue_pairs})
    }
}

impl std::fmt::Display for ScrapeTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>8.1}{:>9.1}{:>8.2}{:>9.1}{:>8.2}{:>9.1}{:>9.1}{:>8.2}{:>8}{:>11}",
            self.floor,
            self.scrape,
            self.ratio(),
            self.secure,
            self.secure(),
            self.gzip,
            self.gzip_secure,
            self.gzip_secure(),
            self.lines,
            self.bytes
        )
    }
}
