//! Compares ADD and DEL of the exclusive chain, a VF and its RDMA device, with a C program (the floor), in the lab.
//!
//! `hack/bench` builds the measured programs and starts this one there. The NIC and the RDMA device are simulated: the
//! costs are those of the kernel's code around them, without firmware.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the program prints its results")]

mod node;
mod report;

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use bench::race::{BenchStep, Benchmark, CallTimes, race};
use serde_json::{Value, json};

use node::{BenchVf, PF, SCRATCH, copy, copy_to, crowd, make_node};
use report::{in_json, ms, table};

/// Limits of `--check`: maximum ratios of two medians.
///
/// The emulator makes a CPU some twenty times slower, but not the waits in the kernel. The CPU time of a process, and above
/// all a second process, therefore costs relatively more than on a real node.
const CHECKS: [RatioLimit; 6] = [
    RatioLimit { what: "ADD / floor", of: ONE, against: FLOOR, verb: BenchStep::Add, at_most: 1.3 },
    RatioLimit { what: "DEL / floor", of: ONE, against: FLOOR, verb: BenchStep::Del, at_most: 1.35 },
    RatioLimit {
        what: "ADD / floor, two processes",
        of: TWO,
        against: FLOOR,
        verb: BenchStep::Add,
        at_most: 1.5,
    },
    RatioLimit {
        what: "DEL / floor, two processes",
        of: TWO,
        against: FLOOR,
        verb: BenchStep::Del,
        at_most: 1.45,
    },
    RatioLimit {
        what: "ADD, crowded / empty",
        of: TWO_CROWDED,
        against: TWO,
        verb: BenchStep::Add,
        at_most: 1.1,
    },
    RatioLimit {
        what: "macvlan, crowded / empty",
        of: SHARED_CROWDED,
        against: SHARED,
        verb: BenchStep::Add,
        at_most: 1.1,
    },
];

const FLOOR: &str = "floor";
const ONE: &str = "silkrail, one process";
const TWO: &str = "silkrail";
const TWO_CROWDED: &str = "silkrail, crowded node";
const SHARED: &str = "macvlan";
const SHARED_CROWDED: &str = "macvlan, crowded node";

const POD: &str = "/run/netns/pod";
/// The VF's MAC address in the pod.
const MAC: &str = "02:00:00:00:00:55";

type BenchResult<T> = std::result::Result<T, Box<dyn Error>>;

struct RatioLimit {
    what: &'static str,
    of: &'static str,
    against: &'static str,
    verb: BenchStep,
    at_most: f64,
}

struct BenchChainArgs {
    ours: PathBuf,
    floor: PathBuf,
    /// The directory of Go's `sriov`, `rdma` and `host-local`.
    go: Option<PathBuf>,
    /// Directories of other builds of our plugins.
    against: Vec<PathBuf>,
    rounds: usize,
    json: bool,
    check: bool,
}

/// A measured program or chain of programs.
struct MeasuredChain {
    name: String,
    vf: BenchVf,
    kind: ChainKind,
    calls: u32,
}

enum ChainKind {
    /// The C program, and whether it omits the wait for the carrier.
    Floor { program: PathBuf, bare: bool },
    /// CNI plugins in the order of the chain, each with its configuration.
    Plugins(Vec<(PathBuf, Value)>),
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("bench-chain: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the measurements. Returns whether the check passes, or true without `--check`.
fn run() -> BenchResult<bool> {
    let options = BenchChainArgs::read()?;
    let vf = make_node()?;
    let floor = copy(&options.floor)?;
    let mut chains = vec![
        MeasuredChain::floor("floor, bare", &vf, &floor, true),
        MeasuredChain::floor(FLOOR, &vf, &floor, false),
        MeasuredChain::ours(TWO, &vf, &options.ours, &["sriov", "rdma"])?,
        MeasuredChain::ours(ONE, &vf, &options.ours, &["sriov"])?,
        MeasuredChain::ours(SHARED, &vf, &options.ours, &["macvlan"])?,
    ];
    if let Some(go) = &options.go {
        chains.push(MeasuredChain::go(&vf, go)?);
    }
    for other in &options.against {
        let name = other.display();
        chains.push(MeasuredChain::ours(&name.to_string(), &vf, other, &["sriov", "rdma"])?);
        chains.push(MeasuredChain::ours(&format!("{name}, one process"), &vf, other, &["sriov"])?);
    }
    let mut times = race(&mut chains, options.rounds)?;
    crowd()?;
    chains.retain_mut(|chain| match chain.name.as_str() {
        TWO => chain.rename(TWO_CROWDED),
        SHARED => chain.rename(SHARED_CROWDED),
        _ => false,
    });
    times.extend(race(&mut chains, options.rounds)?);
    let ratios = CHECKS.each_ref().map(|check| check.ratio(&times));
    print!(
        "{}",
        if options.json {
            in_json(&times, &ratios, options.rounds)
        } else {
            table(&times, &ratios, options.rounds)
        }
    );
    Ok(!options.check || ratios.iter().zip(CHECKS).all(|(ratio, check)| *ratio <= check.at_most))
}

impl RatioLimit {
    /// Returns the ratio of the two medians, or NaN if one of them was not measured.
    fn ratio(&self, times: &[CallTimes]) -> f64 {
        let median = |name: &str| {
            let times = times.iter().find(|times| times.name == name)?;
            let of_verb = if self.verb == BenchStep::Add { &times.add } else { &times.del };
            Some(ms(of_verb.median()))
        };
        median(self.of).zip(median(self.against)).map_or(f64::NAN, |(one, other)| one / other)
    }
}

impl BenchChainArgs {
    fn read() -> BenchResult<Self> {
        let mut args = env::args().skip(1);
        let mut path = |what| args.next().map(PathBuf::from).ok_or(format!("missing: {what}"));
        let (ours, floor) = (path("the directory of our plugins")?, path("the floor")?);
        let mut options =
            Self { ours, floor, go: None, against: Vec::new(), rounds: 40, json: false, check: false };
        while let Some(argument) = args.next() {
            match argument.as_str() {
                "--go" => options.go = Some(args.next().ok_or("--go requires a directory")?.into()),
                "--against" => {
                    options.against.push(args.next().ok_or("--against requires a directory")?.into());
                }
                "--rounds" => options.rounds = args.next().ok_or("--rounds requires a number")?.parse()?,
                "--json" => options.json = true,
                "--check" => options.check = true,
                other => return Err(format!("unknown argument {other}; see hack/bench --help").into()),
            }
        }
        Ok(options)
    }
}

impl MeasuredChain {
    fn floor(name: &str, vf: &BenchVf, program: &Path, bare: bool) -> Self {
        let kind = ChainKind::Floor { program: program.to_owned(), bare };
        Self { name: name.to_owned(), vf: vf.clone(), kind, calls: 0 }
    }

    fn ours(name: &str, vf: &BenchVf, dir: &Path, plugins: &[&str]) -> BenchResult<Self> {
        let pool = json!({
            "name": "v4-81", "subnet": "172.81.0.0/16", "gateway": "172.81.0.1", "ips": ["172.81.0.100-172.81.0.120"],
        });
        let ipam = json!({"type": "silkrail-ipam", "pools": [pool]});
        Self::plugins(name, vf, dir, plugins, &ipam)
    }

    fn go(vf: &BenchVf, dir: &Path) -> BenchResult<Self> {
        copy(&dir.join("host-local"))?;
        let range = json!({
            "subnet": "172.81.0.0/16", "gateway": "172.81.0.1", "rangeStart": "172.81.0.100", "rangeEnd": "172.81.0.120",
        });
        let data = format!("{SCRATCH}/host-local");
        let ipam = json!({
            "type": "host-local", "dataDir": data, "ranges": [[range]], "routes": [{"dst": "0.0.0.0/0"}],
        });
        Self::plugins("go", vf, dir, &["sriov", "rdma"], &ipam)
    }

    fn plugins(name: &str, vf: &BenchVf, dir: &Path, plugins: &[&str], ipam: &Value) -> BenchResult<Self> {
        let conf = |plugin: &str| {
            let mut conf = json!({
                "cniVersion": "1.0.0", "name": "bench", "type": plugin, "deviceID": vf.pci,
                "master": PF, "args": {"cni": {"device-id": vf.pci}},
            });
            if plugin != "rdma" {
                conf["ipam"] = ipam.clone();
            }
            if plugin == "sriov" {
                conf["runtimeConfig"] = json!({"mac": MAC, "deviceID": vf.pci});
                (conf["vlan"], conf["spoofchk"], conf["trust"]) = (json!(100), json!("off"), json!("on"));
                // Without rdma in the chain, sriov also moves the RDMA device.
                conf["rdmaIsolation"] = json!(plugins == ["sriov"]);
            }
            conf
        };
        let programs = plugins
            .iter()
            .map(|plugin| Ok((copy_to(&dir.join(plugin), &name.replace('/', "-"))?, conf(plugin))))
            .collect::<BenchResult<_>>()?;
        Ok(Self { name: name.to_owned(), vf: vf.clone(), kind: ChainKind::Plugins(programs), calls: 0 })
    }

    fn rename(&mut self, name: &str) -> bool {
        name.clone_into(&mut self.name);
        true
    }

    /// Returns whether the program moves the VF into the pod.
    fn is_exclusive(&self) -> bool {
        match &self.kind {
            ChainKind::Floor { .. } => true,
            ChainKind::Plugins(plugins) => plugins.iter().any(|(program, _)| program.ends_with("sriov")),
        }
    }

    /// Runs the C program. Returns its duration.
    fn run_floor(&self, program: &Path, word: &str, mac: &str) -> BenchResult<Duration> {
        let BenchVf { link, rdma_index, .. } = &self.vf;
        let mut command = Command::new(program);
        command.args([word, PF, "0", link, mac, rdma_index, POD]);
        let began = Instant::now();
        let status = command.spawn()?.wait()?;
        let took = began.elapsed();
        if status.success() { Ok(took) } else { Err(format!("{} {word}: {status}", self.name).into()) }
    }

    /// Calls every plugin as a runtime does. Returns the sum of their durations.
    fn run_plugins(&self, plugins: &[(PathBuf, Value)], verb: BenchStep) -> BenchResult<Duration> {
        let mut took = Duration::ZERO;
        let mut result = None;
        let in_order: Vec<_> = match verb {
            BenchStep::Add => plugins.iter().collect(),
            BenchStep::Del => plugins.iter().rev().collect(),
        };
        for (program, conf) in in_order {
            let mut conf = conf.clone();
            if let Some(prev) = result.take() {
                conf["prevResult"] = prev;
            }
            let (lived, printed) = self.run_plugin(program, &conf, verb)?;
            took += lived;
            if verb == BenchStep::Add {
                result = Some(serde_json::from_slice(&printed)?);
            }
        }
        Ok(took)
    }

    fn run_plugin(&self, program: &Path, conf: &Value, verb: BenchStep) -> BenchResult<(Duration, Vec<u8>)> {
        let (input, output) = (format!("{SCRATCH}/input"), format!("{SCRATCH}/output"));
        File::create(&input)?.write_all(conf.to_string().as_bytes())?;
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").stdin(File::open(&input)?);
        command.stdout(File::create(&output)?).stderr(Stdio::null());
        command.env("CNI_COMMAND", if verb == BenchStep::Add { "ADD" } else { "DEL" });
        command.env("CNI_CONTAINERID", format!("{:064x}", self.calls)).env("CNI_NETNS", POD);
        command.env("CNI_IFNAME", "net1").env("CNI_PATH", program.parent().unwrap_or(Path::new("/")));
        let began = Instant::now();
        let status = command.spawn()?.wait()?;
        let took = began.elapsed();
        let printed = fs::read(&output)?;
        if status.success() {
            return Ok((took, printed));
        }
        let (name, text) = (program.display(), String::from_utf8_lossy(&printed));
        Err(format!("{}: {name} {verb:?}: {status}: {text}", self.name).into())
    }
}

impl Benchmark for MeasuredChain {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&mut self, verb: BenchStep) -> BenchResult<Duration> {
        let took = match (&self.kind, verb) {
            (ChainKind::Floor { program, bare }, BenchStep::Add) => {
                self.run_floor(program, if *bare { "add-bare" } else { "add" }, MAC)?
            }
            (ChainKind::Floor { program, .. }, BenchStep::Del) => {
                self.run_floor(program, "del", &self.vf.mac)?
            }
            (ChainKind::Plugins(plugins), verb) => self.run_plugins(plugins, verb)?,
        };
        match verb {
            _ if !self.is_exclusive() => {}
            BenchStep::Add => self.vf.is_away()?,
            BenchStep::Del => self.vf.is_home()?,
        }
        self.calls += u32::from(verb == BenchStep::Del);
        Ok(took)
    }
}
