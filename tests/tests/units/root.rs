//! What of the deployment equals root on the node, if an attacker controls its program: the table in SECURITY.md.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use silkrail_tests::conf;

use super::booted::{BootedSystemd, without_program};

const PAGE: &str = "../SECURITY.md";
const SECTION: &str = "Who can become what";

/// What a process without restrictions can do, except for what a kernel may lack: modules and kexec.
const UNCONFINED: &str = "memory of other processes, /proc/1/root, core_pattern, /sys, mounts, namespaces of other processes, \
    devices, BPF, file handles, /etc, CNI plugins, CNI networks, state, sockets of the kubelet, sockets of root";

/// A unit with `attempt` in place of its program, under the name of the file of its output.
fn with_attempt(unit: &str, name: &str) -> String {
    let service =
        format!("[Service]\nType=oneshot\nExecStart=/usr/local/bin/attempt {name}\nReadWritePaths=/out\n");
    without_program(unit).replace("[Service]\n", &service)
}

/// The name of a file of `conf`, as part of the name of another file.
fn flat(file: &str) -> String {
    file.replace('/', "-")
}

fn relative(path: &Path) -> String {
    path.strip_prefix(conf::path("")).unwrap().to_str().unwrap().to_owned()
}

/// The units, and those that a drop-in changes, by the file in `conf`.
fn units() -> BTreeMap<String, String> {
    let mut units = BTreeMap::new();
    let services: Vec<_> = conf::files(&[".service"]).iter().map(|path| relative(path)).collect();
    for file in &services {
        units.insert(file.clone(), with_attempt(&conf::text(file), &flat(file)));
    }
    let drop_ins =
        conf::files(&[".conf"]).into_iter().map(|path| (relative(&path), fs::read_to_string(path).unwrap()));
    for (file, text) in drop_ins.filter(|(_, text)| text.contains("[Service]")) {
        let of =
            services.iter().find(|unit| text.contains(&format!("{}.d/", unit.rsplit('/').next().unwrap())));
        let unit = conf::text(of.unwrap_or_else(|| panic!("{file}: of which unit?")));
        // A later value replaces a former one, or is added to it.
        let both = format!("{}\n{}", with_attempt(&unit, &flat(&file)), without_program(&text));
        units.insert(file, both);
    }
    units
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn pod_of(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

/// Whether an object of a component changes this one.
fn patches(object: &Value, base: &Value) -> bool {
    let is_patch = |object: &Value| object["kind"] == "DaemonSet" && !object["spec"]["selector"].is_object();
    let name = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
    is_patch(object) && !is_patch(base) && name(object) == name(base)
}

/// A container of a manifest, with what it patches first. A patch without a directory of the node has no more rights.
struct Container {
    file: String,
    pods: Vec<Value>,
    container: Vec<Value>,
}

impl Container {
    fn all() -> Vec<Self> {
        let mut objects = Vec::new();
        for file in conf::files(&[".yaml"]).iter().map(|path| relative(path)) {
            objects.extend(conf::yaml(&file).into_iter().map(|object| (file.clone(), object)));
        }
        let mut all = Vec::new();
        for (file, object) in &objects {
            let lists = ["initContainers", "containers"].map(|key| array(&pod_of(object)[key]));
            let containers = lists.into_iter().flatten().filter(|it| it["image"] != "mellanox/rping-test");
            let base = objects.iter().map(|(_, base)| base).find(|base| patches(object, base));
            all.extend(containers.filter_map(|container| Self::new(file, object, container, base)));
        }
        all
    }

    /// Returns `None` for a patch that adds no right on the node.
    fn new(file: &str, object: &Value, container: &Value, base: Option<&Value>) -> Option<Self> {
        let pods: Vec<_> = base.into_iter().chain([object]).map(|object| pod_of(object).clone()).collect();
        let of_base = base.map_or(&[][..], |base| array(&pod_of(base)["containers"]));
        let patched = of_base.iter().find(|it| it["name"] == container["name"]);
        let has_directory = |pod: &Value| array(&pod["volumes"]).iter().any(|it| it["hostPath"].is_object());
        let adds_rights = container["securityContext"].is_object() || has_directory(pod_of(object));
        assert!(adds_rights || base.is_some(), "{file}: no securityContext");
        let container = patched.into_iter().chain([container]).cloned().collect();
        adds_rights.then_some(Self { file: file.to_owned(), pods, container })
    }

    fn mounts(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let mounts = self.container.iter().flat_map(|part| array(&part["volumeMounts"]));
        mounts.filter_map(|mount| {
            let mut volumes = self.pods.iter().flat_map(|pod| array(&pod["volumes"]));
            let volume = volumes.find(|volume| volume["name"] == mount["name"])?;
            let host = volume["hostPath"]["path"].as_str()?;
            Some((host, text(&mount["mountPath"]), mount["readOnly"] == true))
        })
    }

    /// A unit with the rights of the container. Differences: it is in the node's PID namespace even without `hostPID`, has no AppArmor
    /// profile, and its filter of system calls allows at least those of containerd's default
    /// (`contrib/seccomp/seccomp_default.go`).
    fn unit(&self, name: &str) -> String {
        let security =
            self.container.iter().map(|part| &part["securityContext"]).find(|it| it.is_object()).unwrap();
        assert!(
            security["privileged"] != true && security["allowPrivilegeEscalation"] == false,
            "{}",
            self.file
        );
        let added: Vec<_> =
            array(&security["capabilities"]["add"]).iter().map(|it| format!("CAP_{}", text(it))).collect();
        let mut calls = vec!["@system-service"];
        for (capability, more) in [
            ("CAP_SYS_ADMIN", "@mount bpf perf_event_open"),
            ("CAP_SYS_PTRACE", "@debug"),
            ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
            ("CAP_SYS_CHROOT", "chroot"),
        ] {
            calls.extend(added.iter().any(|it| it == capability).then_some(more));
        }
        let system = "/usr /bin /sbin /lib -/lib64";
        let mut unit = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/usr/local/bin/attempt {name}\n\
             RootDirectory=/container\nMountAPIVFS=yes\nPrivateDevices=yes\nNoNewPrivileges=yes\nBindPaths=/out\n\
             BindReadOnlyPaths={system} /proc/bus /proc/fs /proc/irq /proc/sys -/proc/sysrq-trigger\nSystemCallErrorNumber=EPERM\n\
             CapabilityBoundingSet={}\nSystemCallFilter={}\n",
            added.join(" "),
            calls.join(" ")
        );
        if security["runAsUser"] == 65534 {
            unit += "User=65534\n";
        }
        if !self.mounts().any(|(_, path, _)| path == "/sys") {
            unit += "BindReadOnlyPaths=/sys\n";
        }
        for (host, path, is_read_only) in self.mounts() {
            unit +=
                &format!("{}={host}:{path}\n", if is_read_only { "BindReadOnlyPaths" } else { "BindPaths" });
        }
        unit
    }
}

/// The rows of the table: a file, and what it can do.
fn rows() -> BTreeMap<String, String> {
    let page = fs::read_to_string(PAGE).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(SECTION)).unwrap();
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split(" | ").collect();
        for file in cells[0].split('`').skip(1).step_by(2) {
            rows.insert(file.to_owned(), cells[1].replace("nothing", ""));
        }
    }
    rows
}

#[test]
fn the_page_says_what_of_each_unit_and_container_equals_root() {
    let mut programs = units();
    let mut directories = String::new();
    for container in Container::all() {
        for (host, path, _) in container.mounts() {
            directories += &format!("{host}\n/container{path}\n");
        }
        let name = flat(&container.file);
        let is_new = programs.insert(container.file.clone(), container.unit(&name)).is_none();
        assert!(is_new, "{}: more than one container", container.file);
    }
    let mut files: Vec<_> = programs
        .iter()
        .map(|(file, unit)| (format!("attempt-{}.service", flat(file)), unit.clone()))
        .collect();
    files.push(("units.target".into(), "[Unit]\nWants=look.service\n".into()));
    files.push(("directories".into(), directories));
    let booted = BootedSystemd::start("attempts", &files);
    booted.wait();
    let unconfined = booted.out("unconfined").replace("modules, ", "").replace("kexec, ", "");
    assert_eq!(unconfined.trim(), UNCONFINED, "{}", booted.out("look.log"));
    let possible: BTreeMap<_, _> = programs
        .keys()
        .map(|file| {
            let found = booted.out(&flat(file));
            assert!(found.ends_with('\n'), "{file}: {}\n{}", booted.out("systemctl.log"), programs[file]);
            (file.clone(), found.trim_end().to_owned())
        })
        .collect();
    let rows = rows();
    let differences: Vec<_> = rows
        .keys()
        .chain(possible.keys())
        .filter(|file| rows.get(*file) != possible.get(*file))
        .map(|file| format!("{file}: {PAGE} has {:?}, possible is {:?}", rows.get(file), possible.get(file)))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}
