//! Measures the exclusive chain, a VF and its RDMA device into a pod and home, beside its floor, in the lab's machine.
//!
//! `hack/bench` builds what is measured and starts this there. The card and the RDMA device are simulated: what they cost
//! is the kernel's own code around them, and no firmware.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use bench::race::{BenchStep, Benchmark, CallTimes, race};
use serde_json::{Value, json};

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

/// Scratch, on a tmpfs as everything below `/run`.
const SCRATCH: &str = "/run/bench";
const POD: &str = "/run/netns/pod";
const PF: &str = "eth0";
/// The VF's MAC address in the pod.
const MAC: &str = "02:00:00:00:00:55";

/// What makes a node crowded.
const ADDRESSES: u32 = 5_000;
const LINKS: u32 = 500;
/// Further RDMA devices, on the other PF and two of its VFs.
const TWINS: [(&str, &str); 3] = [
    ("/sys/class/net/eth1/device", "31"),
    ("/sys/class/net/eth1/device/virtfn0", "31"),
    ("/sys/class/net/eth1/device/virtfn1", "2"),
];

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

/// The VF that is attached, as it is at home.
#[derive(Clone)]
struct BenchVf {
    pci: String,
    link: String,
    mac: String,
    rdma: String,
    rdma_index: String,
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

impl BenchVf {
    /// The first VF of the first PF.
    fn find() -> BenchResult<Self> {
        let dir = PathBuf::from(format!("/sys/class/net/{PF}/device/virtfn0"));
        let only = |below: &str| -> BenchResult<String> {
            let entry = fs::read_dir(dir.join(below))?.next().ok_or(format!("no {below} of the VF"))??;
            Ok(entry.file_name().display().to_string())
        };
        let (link, rdma) = (only("net")?, only("infiniband")?);
        let mac = fs::read_to_string(format!("/sys/class/net/{link}/address"))?.trim().to_owned();
        let shown = Command::new("rdma").args(["-j", "dev", "show", &rdma]).output()?.stdout;
        let shown: Value = serde_json::from_slice(&shown)?;
        let pci = fs::canonicalize(&dir)?.file_name().unwrap_or_default().display().to_string();
        Ok(Self { pci, link, mac, rdma, rdma_index: shown[0]["ifindex"].to_string() })
    }

    fn places(&self) -> [PathBuf; 2] {
        [format!("/sys/class/net/{}", self.link), format!("/sys/class/infiniband/{}", self.rdma)]
            .map(PathBuf::from)
    }

    /// Who says that the pod has it must have given it all of it.
    fn is_away(&self) -> BenchResult<()> {
        match self.places().into_iter().find(|place| place.exists()) {
            None => Ok(()),
            Some(place) => Err(format!("{} is still at home", place.display()).into()),
        }
    }

    fn is_home(&self) -> BenchResult<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Some(place) = self.places().into_iter().find(|place| !place.exists()) {
            if Instant::now() > deadline {
                return Err(format!("{} has not come home", place.display()).into());
            }
            sleep(Duration::from_millis(5));
        }
        let mac = fs::read_to_string(self.places()[0].join("address"))?;
        if mac.trim() == self.mac {
            Ok(())
        } else {
            Err(format!("it has the MAC {mac}, not {}", self.mac).into())
        }
    }
}

/// A program's copy in memory: the guest's disk is the host's, by way of the emulator.
fn copy(program: &Path) -> BenchResult<PathBuf> {
    copy_to(program, "")
}

fn copy_to(program: &Path, dir: &str) -> BenchResult<PathBuf> {
    let dir = Path::new(SCRATCH).join(dir);
    fs::create_dir_all(&dir)?;
    let copy = dir.join(program.file_name().ok_or("no program")?);
    let silkrail = dir.join("silkrail-ipam");
    fs::copy(program, &copy)?;
    // As in /opt/cni/bin: then the IPAM plugin needs no process of its own.
    if !silkrail.exists() && program.with_file_name("silkrail-ipam").exists() {
        fs::hard_link(&copy, &silkrail)?;
    }
    Ok(copy)
}

fn tool(program: &str, arguments: &[&str]) -> BenchResult<()> {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{program} {arguments:?}: {status}").into()) }
}

/// A node with VFs in exclusive mode, and a pod's namespace.
fn make_node() -> BenchResult<BenchVf> {
    tool("rdma", &["system", "set", "netns", "exclusive"])?;
    tool("lab-vfs", &["7", "eth0", "eth1"])?;
    for pf in [PF, "eth1"] {
        tool("ip", &["link", "set", pf, "up"])?;
    }
    tool("ip", &["netns", "add", "pod"])?;
    sleep(Duration::from_secs(3)); // the PF's carrier
    BenchVf::find()
}

/// Addresses, links and RDMA devices of others.
fn crowd() -> BenchResult<()> {
    let mut batch = String::from("link add crowd type dummy\n");
    for number in 0..ADDRESSES {
        writeln!(batch, "addr add 10.99.{}.{}/32 dev crowd", number / 250, number % 250 + 1)?;
    }
    for number in 0..LINKS {
        writeln!(batch, "link add crowd{number} type dummy")?;
    }
    let path = format!("{SCRATCH}/batch");
    fs::write(&path, batch)?;
    tool("ip", &["-batch", &path])?;
    for (function, twins) in TWINS {
        let pci = fs::canonicalize(function)?;
        let settings = Path::new("/sys/kernel/debug/rdmasim").join(pci.file_name().unwrap_or_default());
        fs::write(settings.join("twins"), twins)?;
    }
    sleep(Duration::from_secs(3)); // they are made in the background
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn table(times: &[CallTimes], ratios: &[f64; CHECKS.len()], rounds: usize) -> String {
    let mut text =
        format!("a VF and its RDMA device by sriov with IPAM and rdma; all processes, {rounds} rounds, ms\n");
    let _ = writeln!(text, "  {:<28}{:>10}{:>8}{:>10}{:>8}", "", "ADD p50", "p95", "DEL p50", "p95");
    for CallTimes { name, add, del } in times {
        let [a, b, c, d] = [add.median(), add.p95(), del.median(), del.p95()].map(ms);
        let _ = writeln!(text, "  {name:<28}{a:>10.1}{b:>8.1}{c:>10.1}{d:>8.1}");
    }
    for (ratio, RatioLimit { what, at_most, .. }) in ratios.iter().zip(CHECKS) {
        let _ = writeln!(text, "  {what:<28}{ratio:>10.2} (at most {at_most})");
    }
    let _ = writeln!(text, "  crowded: {ADDRESSES} addresses, {LINKS} links, 64 more RDMA devices");
    text
}

fn in_json(times: &[CallTimes], ratios: &[f64; CHECKS.len()], rounds: usize) -> String {
    let calls: serde_json::Map<_, _> = times
        .iter()
        .map(|CallTimes { name, add, del }| {
            let [a, b, c, d] = [add.median(), add.p95(), del.median(), del.p95()].map(ms);
            (
                name.clone(),
                json!({"add": {"median_ms": a, "p95_ms": b}, "del": {"median_ms": c, "p95_ms": d}}),
            )
        })
        .collect();
    let ratios: serde_json::Map<_, _> =
        CHECKS.iter().zip(ratios).map(|(check, ratio)| (check.what.to_owned(), json!(ratio))).collect();
    format!("{:#}\n", json!({"rounds": rounds, "chain": calls, "ratios": ratios}))
}
