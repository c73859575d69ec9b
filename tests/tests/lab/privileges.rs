//! The privileges that the chain and the command line need, and the system calls that they never use.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use serde_json::json;
use testkit::{Call, Observe};

use silkrail_tests::{chain::Chain, machine::LabMachine};

/// A command prefix that leaves only these capabilities.
const ENOUGH: [&str; 3] = ["setpriv", "--bounding-set", "-all,+net_admin,+sys_admin"];

#[test]
fn the_chain_needs_two_capabilities_and_its_claims_are_private() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let settings =
        json!({"vlan": 5, "mac": "c2:11:22:33:44:55", "mtu": 1400, "trust": "on", "max_tx_rate": 100});
    let chain = Chain::new(&machine, &vf, &pod, settings);
    let (sriov, rdma) = (chain.sriov().clone().under(&ENOUGH), chain.rdma().clone().under(&ENOUGH));
    sriov.status().done();
    let result = sriov.add().ok();
    rdma.with("prevResult", &result).add().ok();
    sriov.check_after(&result).done();
    rdma.check_after(&result).done();
    for part in ["vf", "rdma"] {
        let dir = machine.node.state_dir().join(part);
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(dir.clone()), mode(dir.join(&vf.pci))), (0o700, 0o600), "{part}");
    }
    rdma.del().done();
    sriov.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn the_chain_communicates_only_with_the_kernel_and_opens_no_device() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 5}));
    let file = machine.node.state_dir().with_file_name("calls");
    let strace = ["strace", "-fy", "-etrace=openat,socket,execve,mount", "-o", file.to_str().unwrap()];
    let mut text = String::new();
    let mut run = |call: &Call, make: &dyn Fn(&Call) -> testkit::Answer| {
        let answer = make(&call.clone().under(&strace));
        text += &fs::read_to_string(&file).unwrap();
        answer
    };
    let result = run(chain.sriov(), &Call::add).ok();
    run(&chain.rdma().with("prevResult", &result), &Call::add).ok();
    run(chain.rdma(), &Call::del).done();
    run(chain.sriov(), &Call::del).done();
    let lines = |what: &str| text.lines().filter(|line| line.contains(what)).collect::<Vec<_>>();
    assert!(lines("socket(").len() > 3, "{text}");
    assert!(lines("socket(").iter().all(|line| line.contains("AF_NETLINK")), "{text}");
    assert_eq!(lines("execve(").len(), 4, "only the plugins are executed: {text}");
    assert!(lines("mount(").is_empty() && lines("\"/dev/").is_empty(), "{text}");
    let state = machine.node.state_dir().display().to_string();
    for line in text.lines().filter(|l| ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|f| l.contains(f))) {
        let is_lock = line.contains("\"/sys/bus/pci/drivers_probe\", O_WRONLY");
        let is_of_link = ["gro_flush_timeout", "napi_defer_hard_irqs"]
            .iter()
            .any(|file| line.contains("\"/sys/class/net/") && line.contains(file));
        assert!(
            is_lock || is_of_link || line.contains(&state) || line.contains("\"/proc/sys/net/ip"),
            "{line}"
        );
    }
}

#[test]
fn read_only_commands_need_no_privileges() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    // Other users cannot read the directories of the test by default.
    let open = |path: &std::path::Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(machine.node.state_dir().parent().unwrap());
    let executable = std::env::current_exe().unwrap().parent().unwrap().with_file_name("silkrail");
    let unprivileged = |args: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"])
            .arg(&executable)
            .args(args)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), text.concat())
    };
    let state = machine.node.state_dir().display().to_string();
    let (code, printed) = unprivileged(&["pods", "--state-dir", &state]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains(&vf.rdma), "{printed}");
    let (code, printed) = unprivileged(&["mode", "get"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("exclusive"), "{printed}");
    let (code, printed) = unprivileged(&["links"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("eth0") && printed.contains("eth1"), "{printed}");
    assert_eq!(printed.matches("CAP_NET_ADMIN").count(), 1, "once for all links: {printed}");
    let (code, _) = unprivileged(&["mode", "set", "shared"]);
    assert_ne!(code, Some(0));
    // `rdma system show` has no JSON form.
    assert!(machine.node.run("rdma", &["system", "show"]).starts_with("netns exclusive"));
    chain.del();
}
