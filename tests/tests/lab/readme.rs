//! The README's instructions for setting up a node, on a machine that has only a kubelet's directories: the test runs every
//! command, and checks that each prints the next step.

use std::{
    fs,
    io::Write,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use silkrail_tests::{cli, conf, machine::LabMachine, multus::state_files};
use testkit::{Binaries, Observe, TestPod};

/// Returns a directory as `hack/build` creates it, with the executables that were built for this test.
fn dist() -> tempfile::TempDir {
    let dist = tempfile::tempdir().unwrap();
    let built = cli::executable();
    fs::create_dir(dist.path().join("bin")).unwrap();
    for name in ["silkrail", "silkraild"] {
        fs::copy(built.with_file_name(name), dist.path().join("bin").join(name)).unwrap();
    }
    let names = Binaries::of(&built.with_file_name("silkrail-cni"));
    fs::create_dir(dist.path().join("cni")).unwrap();
    let executable = dist.path().join("cni/silkrail-cni");
    fs::copy(built.with_file_name("silkrail-cni"), &executable).unwrap();
    for entry in fs::read_dir(names.dir()).unwrap().flatten() {
        let _ = fs::hard_link(&executable, dist.path().join("cni").join(entry.file_name()));
    }
    dist
}

/// Returns the shell commands of the README's section "Set up a node".
fn readme() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let section = text.split("## Set up a node").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned());
    let lines: Vec<String> =
        blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let command = |line: String| line.split('#').next().unwrap().trim().to_owned();
    lines.into_iter().map(command).filter(|line| !line.is_empty()).collect()
}

/// Runs a command of the README, and returns its standard output and standard error.
fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {printed}");
    printed
}

/// Calls the installed plugins of a network as a container runtime does, with the keys that Multus adds.
fn call(verb: &str, network: &Value, pci: &str, pod: &TestPod) -> Value {
    let mut plugins = network["plugins"].as_array().unwrap().clone();
    if verb == "DEL" {
        plugins.reverse();
    }
    let mut result = Value::Null;
    for mut plugin in plugins {
        let program = Path::new("/opt/cni/bin").join(plugin["type"].as_str().unwrap());
        plugin["name"] = network["name"].clone();
        plugin["cniVersion"] = network["cniVersion"].clone();
        plugin["deviceID"] = json!(pci);
        if !result.is_null() {
            plugin["prevResult"] = result.clone();
        }
        let mut child = Command::new(program)
            .env_clear()
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", "c0ffee")
            .env("CNI_NETNS", pod.path())
            .env("CNI_IFNAME", "net1")
            .env("CNI_PATH", "/opt/cni/bin")
            .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=train;K8S_POD_NAME=job-0;K8S_POD_UID=91ab")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(plugin.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{verb}: {printed}");
        if verb == "ADD" {
            result = serde_json::from_str(&printed).unwrap();
        }
    }
    result
}

/// Removes every file of Silkrail and all VFs; also when it is dropped, even after a failure.
struct MachineReset;

impl MachineReset {
    /// Earlier tests have used the default state directory. Its address maps stay after DEL, as a released address is
    /// assigned last.
    fn new() -> Self {
        assert_eq!(state_files(), [""; 0], "an earlier test did not detach its pods");
        drop(Self);
        Self
    }
}

impl Drop for MachineReset {
    fn drop(&mut self) {
        for dir in [
            "/opt/cni",
            "/etc/silkrail",
            "/etc/cni",
            "/var/lib/silkrail",
            "/var/lib/kubelet",
            "/run/silkrail",
        ] {
            let _ = fs::remove_dir_all(dir);
        }
        for file in ["/usr/local/bin/silkrail", "/usr/local/bin/silkraild", "/etc/modprobe.d/ib_core.conf"] {
            let _ = fs::remove_file(file);
        }
        for pf in silkrail_tests::machine::PFS {
            let _ = fs::write(format!("/sys/class/net/{pf}/device/sriov_numvfs"), "0");
        }
    }
}

#[test]
fn the_readme_commands_set_up_a_working_chain_on_an_empty_machine() {
    let machine = LabMachine::bare();
    let _reset = MachineReset::new();
    for dir in [
        "/opt/cni/bin",
        "/etc/cni/net.d",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources",
    ] {
        fs::create_dir_all(dir).unwrap();
    }
    // The sockets of a kubelet.
    let socket = |dir: &str| UnixListener::bind(format!("/var/lib/kubelet/{dir}/kubelet.sock")).unwrap();
    let _kubelet = ["device-plugins", "pod-resources"].map(socket);
    machine.node.run("modprobe", &["rdma_ucm"]);
    let commands = readme();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let [install, mkdir, copy, dry_run, apply] = commands[..] else {
        panic!("the README has other steps: {commands:?}")
    };

    let dist = dist();
    let printed = shell(&install.replace("target/dist", dist.path().to_str().unwrap()));
    assert!(printed.contains("next: write /etc/silkrail/node.yaml"), "{printed}");
    shell(mkdir);
    shell(&copy.replace("conf/", &format!("{}/", conf::path("").display())));
    // The file names the PF of another node, which `apply` reports.
    let other_node = Command::new("/usr/local/bin/silkrail").args(["apply", "--dry-run"]).output().unwrap();
    let printed = String::from_utf8(other_node.stdout).unwrap();
    assert!(
        printed.contains("matches no PF; available: eth0") && other_node.status.code() == Some(2),
        "{printed}"
    );
    let file = "/etc/silkrail/node.yaml";
    let text = fs::read_to_string(file).unwrap().replace("ens6f0np0", "eth0").replace("vfs: 8", "vfs: 7");
    fs::write(file, text.replace("mtu: 9000", "mtu: 1500")).unwrap();
    let path = |command: &str| format!("PATH=/usr/local/bin:$PATH; {command}");
    let printed = shell(&path(dry_run));
    assert!(
        printed.contains("create 7 VFs") && printed.contains("run the command again without --dry-run"),
        "{printed}"
    );
    let printed = shell(&path(apply));
    assert!(
        printed.contains("RDMA mode: exclusive") && printed.contains("next: silkrail doctor"),
        "{printed}"
    );

    // Pools and the network are files of conf/, unchanged.
    fs::create_dir_all("/etc/silkrail/pools.d").unwrap();
    fs::copy(conf::path("pools/v4-81.yaml"), "/etc/silkrail/pools.d/v4-81.yaml").unwrap();
    let network: Value = serde_json::from_str(&conf::text("exclusive/sriov-rdma.conflist")).unwrap();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let result = call("ADD", &network, &vf.pci, &pod);
    assert_eq!(result["ips"][0]["address"], "172.81.0.100/16");
    let device: Value = serde_json::from_str(&pod.run("rdma", &["-j", "dev", "show"])).unwrap();
    assert_eq!(device[0]["ifname"], vf.rdma.as_str());

    let printed = shell(&path("silkrail pods"));
    for part in ["train", "job-0", "net1", "exclusive", &*vf.rdma, &*vf.pci, "172.81.0.100"] {
        assert!(printed.contains(part), "{part} is missing: {printed}");
    }
    let doctor = Command::new("/usr/local/bin/silkrail").args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let severe: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["severity"] != "info")
        .collect();
    assert!(severe.is_empty(), "the doctor reports faults: {severe:#?}");
    assert_eq!(doctor.status.code(), Some(0));

    // uninstall is refused while a pod is attached.
    let refused = Command::new("/usr/local/bin/silkrail").arg("uninstall").output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    call("DEL", &network, &vf.pci, &pod);
    assert_eq!(machine.vf("eth0", 0).rdma, vf.rdma);
    shell(&path("silkrail uninstall"));
    let left: Vec<PathBuf> =
        fs::read_dir("/opt/cni/bin").unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
