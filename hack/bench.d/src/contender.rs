//! The measured programs, which create an attachment and remove it.

use std::{
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use bench::race::{BenchStep, Benchmark};
use netns::NetNs;
use serde_json::{Value, json};

use crate::ipam_store;

/// Directory of Debian's package containernetworking-plugins.
const GO: &str = "/usr/lib/cni";
const POD: &str = "/run/netns/pod";
/// The network namespace of another node, with 5,000 addresses and 500 links: see `arena`.
const CROWDED: &str = "/run/netns/crowded";
const MASTER: &str = "eth0";
/// Directory for temporary files, on the tmpfs at `/run`.
const SCRATCH: &str = "/run/silkrail-bench";

/// A program that is measured.
pub(crate) struct MeasuredProgram {
    /// The name in the report.
    pub(crate) name: String,
    program: PathBuf,
    kind: ProgramKind,
    calls: u32,
    /// The network namespace to start it in, if not the current one.
    node: Option<NetNs>,
}

enum ProgramKind {
    /// A CNI plugin and its configuration.
    Plugin { conf: PathBuf },
    /// The C program `floor`.
    Floor,
}

impl MeasuredProgram {
    /// Returns the C program `floor`.
    pub(crate) fn floor(program: &Path) -> Self {
        Self {
            name: "floor".to_owned(),
            program: program.to_owned(),
            kind: ProgramKind::Floor,
            calls: 0,
            node: None,
        }
    }

    /// Returns our macvlan with silkrail-ipam.
    pub(crate) fn ours(name: &str, dir: &Path) -> Result<Self, Box<dyn Error>> {
        let pools = json!([{
            "name": "v4-81", "subnet": "172.81.0.0/16", "gateway": "172.81.0.1",
            "ips": ["172.81.0.100-172.81.0.120"],
        }]);
        let ipam = json!({"type": "silkrail-ipam", "pools": pools});
        let conf = json!({"type": "macvlan", "master": MASTER, "ipam": ipam});
        Self::plugin(name, dir.join("macvlan"), conf)
    }

    /// Returns the same on the node with many addresses and links.
    pub(crate) fn ours_in_a_crowd(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let node = Some(NetNs::open(Path::new(CROWDED))?);
        Ok(Self { node, ..Self::ours("5,000 addresses, 500 links", dir)? })
    }

    /// Returns the Go macvlan with host-local.
    pub(crate) fn go() -> Result<Self, Box<dyn Error>> {
        let ipam = json!({
            "type": "host-local", "dataDir": format!("{SCRATCH}/host-local"),
            "ranges": [[{
                "subnet": "172.81.0.0/16", "gateway": "172.81.0.1",
                "rangeStart": "172.81.0.100", "rangeEnd": "172.81.0.120",
            }]],
            "routes": [{"dst": "0.0.0.0/0"}],
        });
        let conf = json!({"type": "macvlan", "master": MASTER, "ipam": ipam});
        Self::plugin("go", Path::new(GO).join("macvlan"), conf)
    }

    /// Returns silkrail-ipam alone, with `taken` addresses in use.
    pub(crate) fn our_ipam(dir: &Path, taken: u32) -> Result<Self, Box<dyn Error>> {
        let state = format!("{SCRATCH}/silkrail-ipam-{taken}");
        let pool = ipam_store::pool();
        ipam_store::fill(Path::new(&state), &pool, taken)?;
        let conf = json!({"stateDir": state, "ipam": {"type": "silkrail-ipam", "pools": [pool]}});
        Self::plugin("silkrail-ipam", dir.join("silkrail-ipam"), conf)
    }

    /// Returns our macvlan with silkrail-ipam, whose pool is in one of `files` pool files.
    pub(crate) fn our_pools(dir: &Path, files: u32) -> Result<Self, Box<dyn Error>> {
        let pools = format!("{SCRATCH}/pools-{files}.d");
        ipam_store::pool_files(Path::new(&pools), files)?;
        let ipam = json!({"type": "silkrail-ipam", "poolsDir": pools, "default_ipv4_ippool": ["pool-0"]});
        let conf = json!({"type": "macvlan", "master": MASTER, "ipam": ipam});
        Self::plugin("silkrail", dir.join("macvlan"), conf)
    }

    /// Returns host-local alone, with `taken` addresses in use.
    pub(crate) fn host_local(taken: u32) -> Result<Self, Box<dyn Error>> {
        let state = format!("{SCRATCH}/host-local-{taken}");
        ipam_store::fill_host_local(Path::new(&state), taken)?;
        let range = json!({"subnet": "10.0.0.0/8", "rangeStart": "10.0.0.1", "rangeEnd": "10.1.255.254"});
        let conf = json!({"ipam": {"type": "host-local", "dataDir": state, "ranges": [[range]]}});
        Self::plugin("host-local", Path::new(GO).join("host-local"), conf)
    }

    fn plugin(name: &str, program: PathBuf, mut conf: Value) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(SCRATCH)?;
        conf["cniVersion"] = json!("1.0.0");
        conf["name"] = json!(ipam_store::NETWORK);
        let count = fs::read_dir(SCRATCH)?.count();
        let path = PathBuf::from(format!("{SCRATCH}/{count}.json"));
        fs::write(&path, conf.to_string())?;
        let name = name.to_owned();
        Ok(Self { name, program, kind: ProgramKind::Plugin { conf: path }, calls: 0, node: None })
    }

    /// Returns the number of system calls of an ADD, including those of child processes.
    pub(crate) fn syscalls(&mut self) -> Result<usize, Box<dyn Error>> {
        let log = format!("{SCRATCH}/strace");
        let program = self.program.display().to_string();
        let arguments = ["--follow-forks", "--quiet=all", "--signal=none", "-o", &log, &program];
        let status = self.command(BenchStep::Add, Path::new("strace"), &arguments)?.status()?;
        if !status.success() {
            return Err(format!("strace {program}: {status}").into());
        }
        self.call(BenchStep::Del)?;
        // A call that another process's interrupts has two lines, the second with "resumed".
        Ok(fs::read_to_string(&log)?.lines().filter(|line| !line.contains("resumed>")).count())
    }

    fn command(&self, verb: BenchStep, program: &Path, first: &[&str]) -> Result<Command, Box<dyn Error>> {
        let mut command = Command::new(program);
        command.args(first).env_clear().env("PATH", "/usr/bin:/bin");
        command.stdout(File::create(output_path())?).stderr(File::create("/dev/null")?);
        match &self.kind {
            ProgramKind::Floor if verb == BenchStep::Add => drop(command.args(["add", MASTER, POD])),
            ProgramKind::Floor => drop(command.args(["del", POD])),
            ProgramKind::Plugin { conf } => {
                let cni_command = if verb == BenchStep::Add { "ADD" } else { "DEL" };
                command
                    .env("CNI_COMMAND", cni_command)
                    .env("CNI_CONTAINERID", format!("{:064x}", self.calls));
                command.env("CNI_NETNS", POD).env("CNI_IFNAME", "net1");
                command.env("CNI_PATH", self.program.parent().unwrap_or(Path::new("/")));
                command.stdin(File::open(conf)?);
            }
        }
        Ok(command)
    }
}

impl Benchmark for MeasuredProgram {
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time from the start of the process to its end.
    fn call(&mut self, verb: BenchStep) -> Result<Duration, Box<dyn Error>> {
        let mut command = self.command(verb, &self.program, &[])?;
        // A process inherits the network namespace of the thread that starts it.
        let mut spawn = || (Instant::now(), command.spawn());
        let (began, child) = match &self.node {
            Some(node) => node.run(spawn)?,
            None => spawn(),
        };
        let status = child?.wait()?;
        let took = began.elapsed();
        self.calls += u32::from(verb == BenchStep::Del);
        if status.success() {
            return Ok(took);
        }
        let output = fs::read_to_string(output_path()).unwrap_or_default();
        Err(format!("{} {verb:?}: {status}: {output}", self.name).into())
    }
}

fn output_path() -> PathBuf {
    PathBuf::from(format!("{SCRATCH}/output"))
}
