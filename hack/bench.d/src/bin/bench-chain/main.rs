//! Measures the exclusive chain, a VF and its RDMA device into a pod and home, beside its floor, in the lab's machine.
//!
//! `hack/bench` builds what is measured and starts this there. The card and the RDMA device are simulated: what they cost
//! is the kernel's own code around them, and no firmware.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is what a measurement is for")]

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

/// What `--check` demands of one median beside another.
///
/// The emulator makes a CPU some twenty times slower, but not what the kernel waits for: what a process computes weighs
/// more here than on any real node, a second process above all.
const CHECKS: [RatioLimit; 6] = [
    RatioLimit { what: "ADD / floor", of: ONE, beside: FLOOR, verb: BenchStep::Add, at_most: 1.3 },
    RatioLimit { what: "DEL / floor", of: ONE, beside: FLOOR, verb: BenchStep::Del, at_most: 1.35 },
    RatioLimit {
        what: "ADD / floor, two processes",
        of: TWO,
        beside: FLOOR,
        verb: BenchStep::Add,
        at_most: 1.5,
    },
    RatioLimit {
        what: "DEL / floor, two processes",
        of: TWO,
        beside: FLOOR,
        verb: BenchStep::Del,
        at_most: 1.45,
    },
    RatioLimit {
        what: "ADD, crowded / empty",
        of: TWO_CROWDED,
        beside: TWO,
        verb: BenchStep::Add,
        at_most: 1.1,
    },
    RatioLimit {
        what: "macvlan, crowded / empty",
        of: SHARED_CROWDED,
        beside: SHARED,
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
    beside: &'static str,
    verb: BenchStep,
    at_most: f64,
}

struct BenchChainArgs {
    ours: PathBuf,
    floor: PathBuf,
    /// The directory of Go's `sriov`, `rdma` and `host-local`.
    go: Option<PathBuf>,
    rounds: usize,
    json: bool,
    check: bool,
}

/// A program, or a chain of them, that is measured.
struct MeasuredChain {
    name: String,
    vf: BenchVf,
    kind: ChainKind,
    calls: u32,
}

enum ChainKind {
    /// The C program, and whether it goes without the wait for the carrier.
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

/// Whether the measurement passes its check, if one was asked for.
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
    /// Not a number if one of the two was not measured.
    fn ratio(&self, times: &[CallTimes]) -> f64 {
        let median = |name: &str| {
            let times = times.iter().find(|times| times.name == name)?;
            let of_verb = if self.verb == BenchStep::Add { &times.add } else { &times.del };
            Some(ms(of_verb.median()))
        };
        median(self.of).zip(median(self.beside)).map_or(f64::NAN, |(one, other)| one / other)
    }
}

impl BenchChainArgs {
    fn read() -> BenchResult<Self> {
        let mut args = env::args().skip(1);
        let mut path = |what| args.next().map(PathBuf::from).ok_or(format!("missing: {what}"));
        let (ours, floor) = (path("the directory of our plugins")?, path("the floor")?);
        let mut options = Self { ours, floor, go: None, rounds: 40, json: false, check: false };
        while let Some(argument) = args.next() {
            match argument.as_str() {
                "--go" => options.go = Some(args.next().ok_or("--go wants a directory")?.into()),
                "--rounds" => options.rounds = args.next().ok_or("--rounds wants a number")?.parse()?,
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
                // Alone, it moves the RDMA device too.
                conf["rdmaIsolation"] = json!(plugins == ["sriov"]);
            }
            conf
        };
        let programs = plugins
            .iter()
            .map(|plugin| Ok((copy_to(&dir.join(plugin), name)?, conf(plugin))))
            .collect::<BenchResult<_>>()?;
        Ok(Self { name: name.to_owned(), vf: vf.clone(), kind: ChainKind::Plugins(programs), calls: 0 })
    }

    fn rename(&mut self, name: &str) -> bool {
        name.clone_into(&mut self.name);
        true
    }

    /// Whether it gives the pod the VF.
    fn is_exclusive(&self) -> bool {
        match &self.kind {
            ChainKind::Floor { .. } => true,
            ChainKind::Plugins(plugins) => plugins.iter().any(|(program, _)| program.ends_with("sriov")),
        }
    }

    /// Runs the C program and says how long it lived.
    fn run_floor(&self, program: &Path, word: &str, mac: &str) -> BenchResult<Duration> {
        let BenchVf { link, rdma_index, .. } = &self.vf;
        let mut command = Command::new(program);
        command.args([word, PF, "0", link, mac, rdma_index, POD]);
        let began = Instant::now();
        let status = command.spawn()?.wait()?;
        let took = began.elapsed();
        if status.success() { Ok(took) } else { Err(format!("{} {word}: {status}", self.name).into()) }
    }

    /// Calls every plugin as a runtime does, and says how long the processes lived together.
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
