//! VFs as resources of the kubelet, while they move, lose their driver, and are removed.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    cli,
    daemon::{self, Daemon},
    kubelet::{KubeletDouble, KubeletResource},
    machine::{LabMachine, LabVf, set_vfs},
};
use testkit::{Observe, wait_until};

use crate::unbound_vf::UnboundVf;

const VFS: &str = "silkrail.io/vf";

/// The interval at which devices are read without an event, in seconds.
const READ_INTERVAL: u64 = 50;

/// Without events, half of all changes take longer than this to be seen.
const LATE: Duration = Duration::from_secs(READ_INTERVAL / 2);

struct Resources {
    _directory: tempfile::TempDir,
    file: PathBuf,
    kubelet: KubeletDouble,
    daemon: Daemon,
}

impl Resources {
    fn new(machine: &LabMachine) -> Self {
        Self::with(machine, &[])
    }

    /// Starts the daemon with these environment variables.
    fn with(machine: &LabMachine, environment: &[(&str, String)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file: PathBuf = directory.path().join("resources.json");
        let text = json!({
            "resourceList": [
                {
                    "resourceName": "vf",
                    "resourcePrefix": "silkrail.io",
                    // The PF is a device of this resource, too, while it has no VFs.
                    "selectors": {"pfNames": ["eth0"], "devices": ["10ca"], "isRdma": true}
                }
            ],
            "configList": [{"resourceName": "hca", "rdmaHcaMax": 100, "selectors": {"ifNames": ["eth1"]}}]
        });
        fs::write(&file, text.to_string()).unwrap();
        let kubelet = KubeletDouble::start();
        let state = machine.node.state_dir();
        let hold =
            ["--device-plugin.hold", "1", "--kubernetes", "off", "--state-dir", state.to_str().unwrap()];
        let mut command = Command::new(daemon::executable());
        command.args(kubelet.options(&file)).args(hold).envs(environment.iter().cloned());
        let daemon = Daemon::spawn(&mut command);
        Self { _directory: directory, file, kubelet, daemon }
    }
}

fn ids(machine: &LabMachine, indexes: impl IntoIterator<Item = usize>) -> Vec<String> {
    indexes.into_iter().map(|index| machine.vf("eth0", index).pci).collect()
}

/// Waits until these devices, and no others, are healthy, and returns how long it took.
fn healthy(resource: &KubeletResource, expected: &[String]) -> Duration {
    let began = Instant::now();
    wait_until(&format!("{expected:?} are healthy"), || resource.healthy() == expected);
    began.elapsed()
}

fn uverbs(machine: &LabMachine, vf: &LabVf) -> String {
    let devices = &machine.char_devices()[&vf.pci];
    format!("/dev/infiniband/{}", devices.iter().find(|name| name.starts_with("uverbs")).unwrap())
}

#[test]
fn a_vf_of_a_pod_is_free_only_for_the_kubelet_that_gave_it_to_the_pod() {
    let machine = LabMachine::exclusive();
    let mut resources = Resources::new(&machine);
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("train"));
    let registered = resources.kubelet.resources(2);
    let (own, all) = (&registered[VFS], ids(&machine, 0..7));
    healthy(own, &all);
    let answer = own.allocate(&[&vf.pci]).unwrap();
    let nodes: Vec<_> = answer.devices.into_iter().map(|device| device.host_path).collect();
    assert!(nodes.contains(&uverbs(&machine, &vf)), "{nodes:?}");
    assert_eq!(nodes.iter().filter(|node| node.contains("uverbs")).count(), 1, "{nodes:?}");
    let args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=train;K8S_POD_UID=uid-of-train";
    let chain = Chain::new(&machine, &vf, &pod, json!({})).args(args);
    resources.kubelet.checkpoint(VFS, &[("uid-of-train", &vf.pci)]);
    chain.add();
    own.pre_start(&[&vf.pci]).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(own.healthy(), all, "its own pod has it");
    chain.del();
    // The kubelet has allocated it to another pod, or to none.
    for allocations in [&[("uid-of-next", vf.pci.as_str())][..], &[]] {
        resources.kubelet.checkpoint(VFS, allocations);
        chain.add();
        healthy(own, &ids(&machine, (0..7).filter(|index| *index != 3)));
        chain.del();
        healthy(own, &all);
    }
    let log = resources.daemon.log();
    assert!(log.contains("pod default/train has it"), "{log}");
}

#[test]
fn the_command_shows_who_has_a_device_and_who_should() {
    let machine = LabMachine::exclusive();
    let resources = Resources::new(&machine);
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("train"));
    let args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=train;K8S_POD_UID=uid-of-train";
    let chain = Chain::new(&machine, &vf, &pod, json!({})).args(args);
    chain.add();
    let listed = |more: &str| {
        let (file, kubelet) = (resources.file.display(), resources.kubelet.directory().display());
        let state = machine.node.state_dir();
        let options = format!("--file {file} --kubelet-dir {kubelet} --state-dir {}", state.display());
        cli::silkrail(&format!("devices {options} {more}")).ended(0)
    };
    let device = |resource: &str, id: &str| {
        let report = listed("--json").json();
        let found = |it: &&Value| it["resource"] == resource && it["id"] == id;
        report["devices"].as_array().unwrap().iter().find(found).unwrap().clone()
    };
    let taken = device(VFS, &vf.pci);
    assert_eq!((&taken["holder"], &taken["allocatedTo"]), (&json!("pod default/train"), &json!([])));
    assert!(taken["unhealthy"].as_str().unwrap().contains("the kubelet has not allocated it"), "{taken}");
    resources.kubelet.checkpoint(VFS, &[("uid-of-train", &vf.pci)]);
    let own = device(VFS, &vf.pci);
    assert_eq!((&own["allocatedTo"], &own["unhealthy"]), (&json!(["default/train"]), &Value::Null));
    let free = device(VFS, &machine.vf("eth0", 3).pci);
    assert_eq!(
        (&free["holder"], &free["unhealthy"], &free["pf"]),
        (&Value::Null, &Value::Null, &json!("eth0"))
    );
    assert_eq!(free["rdmaDevices"], json!([machine.vf("eth0", 3).rdma]));
    let table = listed("--all").stdout;
    for part in
        ["RESOURCE", "rdma/hca", "0 of 100", "silkrail mode set shared", "Not offered:", "it has 7 VFs"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    chain.del();
}

#[test]
fn changes_of_drivers_ports_and_vfs_are_seen() {
    let machine = LabMachine::exclusive();
    let interval = ("SILKRAILD_READ_INTERVAL", READ_INTERVAL.to_string());
    let mut resources = Resources::with(&machine, &[interval]);
    let registered = resources.kubelet.resources(2);
    let (own, all) = (&registered[VFS], ids(&machine, 0..7));
    healthy(own, &all);
    let mut seen = Vec::new();
    let unbound = UnboundVf::from(&machine, &machine.vf("eth0", 1));
    seen.push(healthy(own, &ids(&machine, (0..7).filter(|index| *index != 1))));
    unbound.bind();
    seen.push(healthy(own, &all));
    let vf = machine.vf("eth0", 1);
    let answer = own.allocate(&[&vf.pci]).unwrap();
    let nodes: Vec<_> = answer.devices.into_iter().map(|device| device.host_path).collect();
    assert!(nodes.contains(&uverbs(&machine, &vf)), "{nodes:?}");
    machine.node.run_ip("link set eth0 down");
    seen.push(healthy(own, &[]));
    machine.node.run_ip("link set eth0 up");
    seen.push(healthy(own, &all));
    set_vfs(0, &["eth0"]);
    wait_until("no VF is listed", || own.devices().is_empty());
    set_vfs(7, &["eth0"]);
    seen.push(healthy(own, &all));
    // One can be late on a busy machine.
    assert!(seen.iter().filter(|took| **took > LATE).count() < 2, "without events: {seen:?}");
    let log = resources.daemon.log();
    for reason in ["it is not bound to a driver", "the port of"] {
        assert!(log.contains(reason), "{log}");
    }
}

#[test]
fn containers_share_a_pf_in_shared_mode_only() {
    for (is_shared, machine) in [(true, LabMachine::shared as fn() -> _), (false, LabMachine::exclusive)] {
        let machine = machine();
        let mut resources = Resources::new(&machine);
        let registered = resources.kubelet.resources(2);
        let shared = &registered["rdma/hca"];
        wait_until("100 slots are listed", || shared.devices().len() == 100);
        assert_eq!(shared.healthy().len(), if is_shared { 100 } else { 0 });
        let log = resources.daemon.log();
        assert_eq!(log.contains("silkrail mode set shared"), !is_shared, "{log}");
        let allocated = shared.allocate(&["99"]);
        if !is_shared {
            assert_eq!(allocated.unwrap_err(), "rdma/hca: it has no healthy device on this node");
            continue;
        }
        let nodes: Vec<_> = allocated.unwrap().devices.into_iter().map(|device| device.host_path).collect();
        let device = fs::read_link("/sys/class/net/eth1/device").unwrap();
        let pf = &machine.char_devices()[device.file_name().unwrap().to_str().unwrap()];
        let verbs: Vec<_> = nodes.iter().filter(|node| node.contains("uverbs")).collect();
        assert!(verbs.len() == 1 && pf.iter().any(|name| verbs[0].ends_with(name)), "{nodes:?} {pf:?}");
    }
}
