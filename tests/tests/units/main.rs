//! The systemd units: they permit the operations of their programs, and little else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod booted;
mod root;

use std::{
    collections::BTreeSet,
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use silkrail_tests::{cli, conf, daemon, http, rxe};
use testkit::wait_until;

const NODE: &str = "node/silkrail-node.service";
const CHECK: &str = "node/silkrail-check.service";
const PROBE: &str = "node/silkrail-probe.service";
const GOVERNOR: &str = "node/silkrail-check-governor.conf";
const GC: &str = "node/silkrail-gc.service";
const DOCTOR: &str = "node/silkrail-doctor.service";
const DAEMON: &str = "silkraild/silkraild.service";

/// The UID and GID of `nobody`.
const NOBODY: &str = "65534";

/// The values of a key of a unit.
fn values(unit: &str, key: &str) -> Vec<String> {
    let text = conf::text(unit);
    let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn text_of(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream).into_owned()).concat()
}

/// Checks that the exposure level of `systemd-analyze security`, from 0 (best) to 100, is at most the ceiling.
fn assert_exposure(unit: &Path, ceiling: u32) {
    let threshold = format!("--threshold={ceiling}");
    let analysis =
        run(Command::new("systemd-analyze").args(["security", "--offline=true", &threshold]).arg(unit));
    assert!(analysis.status.success(), "more than {ceiling}: {}", text_of(&analysis));
}

#[test]
fn no_unit_is_more_exposed_than_its_ceiling() {
    let known = [(CHECK, 30), (PROBE, 30), (DAEMON, 30), (NODE, 50), (DOCTOR, 55), (GC, 60)];
    let files: BTreeSet<PathBuf> = conf::files(&[".service"]).into_iter().collect();
    assert_eq!(files, known.iter().map(|(unit, _)| conf::path(unit)).collect(), "a new unit needs a ceiling");
    for (unit, ceiling) in known {
        assert_exposure(&conf::path(unit), ceiling);
    }
    let with_governor = tempfile::tempdir().unwrap();
    let unit = with_governor.path().join("silkrail-check.service");
    fs::copy(conf::path(CHECK), &unit).unwrap();
    let drop_in = with_governor.path().join("silkrail-check.service.d/governor.conf");
    fs::create_dir(drop_in.parent().unwrap()).unwrap();
    fs::copy(conf::path(GOVERNOR), drop_in).unwrap();
    assert_exposure(&unit, 30);
}

/// Runs `silkrail apply` in a new PID and network namespace, with these capabilities.
fn apply(capabilities: &[String]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.yaml");
    fs::write(&file, "pfs: [{match: {vendor: '15b3', device: '1021'}, vfs: 4, optional: true}]\n").unwrap();
    let bounding =
        capabilities.iter().map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    // Files that make this machine a node of a cluster are hidden.
    let hide = "while read -r path; do [ ! -d /$path ] || mount -t tmpfs tmpfs /$path; done";
    let node_files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/lab/guest/node-files");
    let script = format!(
        "{hide} <{} && setpriv --inh-caps=-all --bounding-set=-all{} --no-new-privs {} apply --state-dir {} {}; exit $?",
        node_files.display(),
        bounding.collect::<String>(),
        cli::executable().display(),
        dir.path().join("state").display(),
        file.display()
    );
    run(Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "--net", "sh", "-c", &script]))
}

#[test]
fn the_node_unit_has_the_capabilities_to_find_the_processes_of_a_namespace() {
    let capabilities = values(NODE, "CapabilityBoundingSet");
    let enough = apply(&capabilities);
    assert!(enough.status.success(), "{}", text_of(&enough));
    let fewer: Vec<String> = capabilities.into_iter().filter(|name| name != "CAP_SYS_PTRACE").collect();
    let refused = apply(&fewer);
    assert!(
        !refused.status.success() && text_of(&refused).contains("CAP_SYS_PTRACE"),
        "{}",
        text_of(&refused)
    );
}

/// A running program under strace.
struct TracedUnit {
    strace: Child,
    calls: tempfile::NamedTempFile,
}

impl TracedUnit {
    /// Starts a program, which is terminated after a minute at the latest.
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let calls = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("strace");
        command.arg("-fo").arg(calls.path()).args(["timeout", "60"]).arg(program).args(arguments);
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { strace: streams.spawn().unwrap(), calls }
    }

    /// Terminates the program, and returns the names of its system calls.
    fn ended(mut self) -> BTreeSet<String> {
        let pid = self.strace.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        run(Command::new("kill").args(children.split_whitespace()));
        self.strace.wait().unwrap();
        calls(&fs::read_to_string(self.calls.path()).unwrap())
    }
}

fn calls(trace: &str) -> BTreeSet<String> {
    let call = |line: &str| {
        let (name, _) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then(|| name.to_owned())
    };
    trace.lines().filter_map(call).collect()
}

/// The system calls that a filter allows.
fn allowed(filter: &[String]) -> BTreeSet<String> {
    let set = |name: &String| {
        let listed = run(Command::new("systemd-analyze").args(["syscall-filter", name]));
        let text = String::from_utf8(listed.stdout).unwrap();
        let lines =
            text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        allowed(&lines.map(str::to_owned).collect::<Vec<_>>())
    };
    let (sets, calls): (Vec<_>, Vec<_>) = filter.iter().cloned().partition(|name| name.starts_with('@'));
    sets.iter().flat_map(set).chain(calls).collect()
}

fn assert_allowed(unit: &str, calls: &BTreeSet<String>) {
    let filter = allowed(&values(unit, "SystemCallFilter"));
    assert!(filter.len() > 100 && calls.contains("openat"), "{filter:?} {calls:?}");
    let refused: Vec<_> = calls.difference(&filter).collect();
    assert!(refused.is_empty(), "{unit} does not allow its program to call {refused:?}");
}

#[test]
fn no_program_makes_a_call_that_its_unit_filters() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.yaml");
    fs::write(&file, "pfs: []\n").unwrap();
    let state = dir.path().join("state");
    let arguments = ["apply", "--dry-run", "--state-dir", state.to_str().unwrap(), file.to_str().unwrap()];
    let trace = dir.path().join("trace");
    run(Command::new("strace").arg("-fo").arg(&trace).arg(cli::executable()).args(arguments));
    assert_allowed(NODE, &calls(&fs::read_to_string(&trace).unwrap()));

    let arguments = ["gc", "--yes", "--state-dir", dir.path().to_str().unwrap()];
    run(Command::new("strace").arg("-fo").arg(&trace).arg(cli::executable()).args(arguments));
    assert_allowed(GC, &calls(&fs::read_to_string(&trace).unwrap()));

    let listen = http::own_address();
    let agent = TracedUnit::start(&cli::executable(), &["check", "serve", "--listen", &listen.to_string()]);
    wait_until("the agent listens", || TcpStream::connect(listen).is_ok());
    cli::silkrail(&format!("check bw {listen} --no-store"));
    assert_allowed(CHECK, &agent.ended());

    let listen = http::own_address();
    let daemon = TracedUnit::start(
        &daemon::executable(),
        &["--listen", &listen.to_string(), "--health.listen", "127.0.0.1:0"],
    );
    wait_until("the daemon listens", || TcpStream::connect(listen).is_ok());
    assert_eq!(http::request(listen, "GET /metrics HTTP/1.1", &[]).status, 200);
    assert_allowed(DAEMON, &daemon.ended());
}

/// Whether the agent has authenticated a client, by the client's next error: a machine may have no perftest, no device,
/// or no RDMA.
fn is_authenticated(error: &str) -> bool {
    ["perftest", "no usable RDMA port", "this node has no RDMA"].iter().any(|missing| error.contains(missing))
}

/// The token has the owner and mode of a systemd credential, without and with access control lists.
#[test]
fn the_agent_needs_neither_root_nor_a_capability() {
    for (owner, mode) in [(NOBODY, 0o400), ("0", 0o440)] {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = dir.path().join("silkrail");
        fs::copy(cli::executable(), &program).unwrap();
        let [token, roots] = ["check.token", "token"].map(|name| dir.path().join(name));
        for path in [&token, &roots] {
            fs::write(path, "0123456789abcdef0123456789abcdef").unwrap();
        }
        fs::set_permissions(&roots, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).unwrap();
        // The group simulates an access control list.
        std::os::unix::fs::chown(&token, owner.parse().ok(), NOBODY.parse().ok()).unwrap();
        let address = http::own_address();
        let listen = address.to_string();
        let mut agent = Command::new("setpriv");
        agent
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
            .arg(&program)
            .args(["check", "serve", "--listen", &listen, "--token-file"])
            .arg(&token)
            .env("CREDENTIALS_DIRECTORY", dir.path());
        let _agent = rxe::RxeProgram::spawn(&mut agent);
        wait_until("the agent listens", || TcpStream::connect(address).is_ok());
        let client = format!("check bw {listen} --no-store --token-file {}", roots.display());
        let connected = cli::silkrail(&client);
        assert!(is_authenticated(&connected.stderr), "{connected:?}");
        fs::write(&roots, "another token of another cluster").unwrap();
        let refused = cli::silkrail(&client).ended(1);
        assert!(refused.stderr.contains("the token is wrong"), "{refused:?}");
    }
}
