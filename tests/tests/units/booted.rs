//! The units under a separate systemd, over this machine's files.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use silkrail_tests::{cli, conf, daemon};

use super::{CHECK, DAEMON, GC, GOVERNOR, NODE, is_authenticated};

/// Empty units for the targets that the units are ordered by.
const TARGETS: [&str; 7] = [
    "sysinit.target",
    "basic.target",
    "shutdown.target",
    "local-fs.target",
    "network-pre.target",
    "network-online.target",
    "multi-user.target",
];

const START: &str = "[Unit]
Wants=look.service silkrail-node.service silkraild.service silkrail-check.service\n";

const LOOK_SERVICE: &str = "[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/usr/local/bin/look
StandardError=file:/out/look.log\n";

/// A systemd that is killed when this value is dropped, and the directory that its units write to.
pub(crate) struct BootedSystemd {
    dir: tempfile::TempDir,
    systemd: Child,
}

impl BootedSystemd {
    /// Starts it with these units, by name, and a script that starts them, in this directory of sources.
    pub(crate) fn start(script: &str, units: &[(String, String)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let below = |name: &str| dir.path().join(name);
        for name in ["units", "bin", "etc/silkrail", "out"] {
            fs::create_dir_all(below(name)).unwrap();
        }
        fs::set_permissions(below("out"), fs::Permissions::from_mode(0o777)).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/units");
        fs::copy(sources.join(script), below("bin/look")).unwrap();
        let probes = ["probe", "attempt"].map(|name| sources.join(name));
        for program in [cli::executable(), daemon::executable()].into_iter().chain(probes) {
            fs::copy(&program, below("bin").join(program.file_name().unwrap())).unwrap();
        }
        let token = below("etc/silkrail/check.token");
        fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(below("etc/silkrail/node.yaml"), "pfs: []\n").unwrap();
        let unit = |name: &str, text: &str| {
            let path = below("units").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for target in TARGETS {
            unit(target, "[Unit]\nDefaultDependencies=no\n");
        }
        unit("look.service", LOOK_SERVICE);
        units.iter().for_each(|(name, text)| unit(name, text));
        let systemd = Command::new("unshare")
            .args(["--mount", "--uts", "--ipc", "--net", "--propagation", "private"])
            .arg(sources.join("boot"))
            .arg(dir.path())
            .stdin(Stdio::null())
            .spawn();
        Self { systemd: systemd.unwrap(), dir }
    }

    /// Waits until the script `look` has finished.
    pub(crate) fn wait(&self) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.dir.path().join("out/done").exists() {
            assert!(Instant::now() < deadline, "systemd did not start, or: {}", self.out("look.log"));
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn out(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join("out").join(name)).unwrap_or_default()
    }
}

impl Drop for BootedSystemd {
    fn drop(&mut self) {
        let _ = self.systemd.kill();
        let _ = self.systemd.wait();
        // Its mounts are gone; its cgroups remain, and are empty after its last process has exited.
        let own = format!("silkrail-units-{}", self.systemd.id());
        let remove = "mount -t cgroup2 none \"$0\"; cd \"$0\"
            for i in $(seq 100); do [ -d \"$1\" ] || exit 0; find \"$1\" -depth -type d -exec rmdir {} + 2>/dev/null; sleep 0.1; done";
        let remove = ["--mount", "--propagation", "private", "bash", "-c", remove];
        let _ = Command::new("unshare").args(remove).arg(self.dir.path().join("etc")).arg(own).status();
    }
}

/// A unit with the probe in place of its program. The only additional permission is to write to `/out`.
fn with_probe(unit: &str, probe: &str) -> String {
    let service =
        format!("[Service]\nType=oneshot\nExecStart=/usr/local/bin/probe {probe}\nReadWritePaths=/out\n");
    without_program(unit).replace("[Service]\n", &service)
}

/// The unit without its program: the permissions only.
pub(crate) fn without_program(unit: &str) -> String {
    let kept = |line: &&str| {
        !["ExecStart", "Restart", "Type=", "RemainAfterExit"].iter().any(|key| line.starts_with(key))
    };
    unit.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

/// The units, and each of them with the probe.
fn units() -> Vec<(String, String)> {
    let governor = conf::text(GOVERNOR);
    let mut units = vec![
        ("units.target".into(), START.into()),
        ("governor.conf".into(), governor.clone()),
        ("governor-probe.service.d/governor.conf".into(), without_program(&governor)),
        ("silkrail-gc.timer".into(), conf::text("node/silkrail-gc.timer")),
    ];
    let probes = [
        (NODE, "node-probe"),
        (DAEMON, "daemon-probe"),
        (GC, "gc-probe"),
        (CHECK, "check-probe"),
        (CHECK, "governor-probe"),
    ];
    for (path, probe) in probes {
        let text = conf::text(path);
        units.push((format!("{probe}.service"), with_probe(&text, probe)));
        units.push((path.rsplit('/').next().unwrap().to_owned(), text));
    }
    units
}

#[test]
fn the_programs_of_the_units_work_and_have_no_other_permission() {
    let booted = BootedSystemd::start("look", &units());
    booted.wait();
    for unit in [NODE, DAEMON, CHECK] {
        let name = unit.rsplit('/').next().unwrap();
        assert_eq!(
            booted.out(&format!("{name}.active")),
            "active\n",
            "{}",
            booted.out(&format!("{name}.why"))
        );
    }
    assert!(booted.out("ready.json").contains("\"vfs\": 0"), "{}", booted.out("ready.json"));
    assert!(booted.out("metrics").contains(" 200 "), "{}", booted.out("metrics"));
    for client in ["client", "client-of-root"] {
        let output = booted.out(client);
        assert!(is_authenticated(&output), "{output}");
    }
    let status = booted.out("silkrail-check.service.status");
    let roots = booted.out("root.status");
    for line in ["CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line) && roots.contains(line), "{status}{roots}");
    }
    assert!(!status.contains("Uid:\t0") && roots.contains("Uid:\t0"), "{status}{roots}");
    assert!(booted.out("late").contains("net:["), "the daemon sees a pod that was started later");

    let can = |probe: &str, what: &str| {
        let text = booted.out(probe);
        let verdict =
            text.lines().find_map(|line| line.strip_suffix(what)).unwrap_or_else(|| panic!("{what}: {text}"));
        verdict == "can "
    };
    let enter = "nsenter --net=/run/netns/pod true";
    assert!(can("node-probe", enter) && can("daemon-probe", enter) && !can("check-probe", enter));
    assert!(can("daemon-probe", "fsopen") && !can("node-probe", "fsopen") && !can("check-probe", "fsopen"));
    assert!(can("node-probe", "readlink /proc/1/ns/net") && can("node-probe", "ls /usr/lib/modules"));
    let state =
        ["/etc/modprobe.d/x.conf", "/run/silkrail/x", "/var/lib/silkrail/x", "/var/lib/silkrail/check/x"];
    for file in state.iter().chain(&["/etc/x", "/usr/x"]) {
        let written = format!("touch {file}");
        assert_eq!(can("node-probe", &written), state.contains(file), "{file}");
        assert!(!can("daemon-probe", &written) && !can("check-probe", &written), "{file}");
        assert_eq!(can("governor-probe", &written), *file == "/var/lib/silkrail/check/x", "{file}");
    }
    assert!(
        !can("check-probe", "cat /etc/silkrail/check.token")
            && can("check-probe", "cat /run/credentials/check-probe.service/check.token")
    );
    // Root can write these without a capability: each would exceed the permissions of the unit.
    let kernel_files = [
        "touch /dev/x",
        "opens /proc/sys/kernel/core_pattern",
        "opens /proc/sysrq-trigger",
        "opens /sys/bus/pci/drivers_probe",
    ];
    assert!(can("gc-probe", enter) && can("gc-probe", "readlink /proc/1/ns/net"));
    assert!(can("gc-probe", "touch /run/silkrail/x") && !can("gc-probe", "touch /etc/x"), "it reverts state");
    assert!(can("gc-probe", kernel_files[3]), "it binds VFs");
    assert!(!can("gc-probe", "unshare --user true"));
    assert_eq!(booted.out("gc.timer"), "active\n", "not until it is started: {}", booted.out("gc.timer.log"));
    assert!(
        can("governor-probe", "cat /etc/silkrail/check.token"),
        "root reads it, see docs/threat-model.md"
    );
    for probe in ["node-probe", "daemon-probe", "check-probe", "governor-probe"] {
        assert!(!can(probe, "unshare --user true"), "{probe}");
    }
    for what in kernel_files {
        // Kernels without SysRq support have no such file.
        assert_eq!(
            can("unconfined", what),
            what != kernel_files[2] || Path::new("/proc/sysrq-trigger").exists(),
            "{what}"
        );
        for probe in ["daemon-probe", "check-probe", "governor-probe"] {
            assert!(!can(probe, what), "{probe}: {what}: {}", booted.out(probe));
        }
    }
    assert!(can("node-probe", kernel_files[3]), "it binds VFs");
    let governor = "sets /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    assert!(can("governor-probe", governor) && can("governor-probe", "opens /dev/null"));
    assert!(!can("daemon-probe", governor) && !can("check-probe", governor));
    assert_eq!(booted.out("governor"), "performance\n");
}
