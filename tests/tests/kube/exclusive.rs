//! Each pod has a VF with its RDMA device.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use silkrail_tests::{
    daemon::Daemon,
    kubernetes::{Kubernetes, pod, wait_for_watches, without_rdma_cm},
    machine::LabMachine,
    multus::state_files,
};
use testkit::{Observe, Share, wait_until};

const RESOURCE: &str = "spidernet.io/mellanoxrdma";

/// What a container is told and sees. The kernel lets only processes in the device's network namespace open its node.
const LOOK: &str = r#"
cat /run/silkrail/pod/rdma.json; echo ---
cat "$NCCL_CONF_FILE"; echo ---
ls /sys/class/infiniband; echo ---
ls /dev/infiniband; echo ---
for node in /dev/infiniband/uverbs*; do (exec 3<>"$node") && echo "${node##*/}"; done; echo ---
ip addr show dev net1; echo ---
grep -H . /sys/class/infiniband/*/ports/1/gids/[0-9]
"#;

/// The network of `conf/exclusive`, with a pool in it.
fn network() -> Value {
    let pool = json!({"name": "rails", "subnet": "172.81.0.0/16", "ips": ["172.81.0.10-172.81.0.200"]});
    let plugins = json!([
        {"type": "sriov", "ipam": {"type": "silkrail-ipam", "pools": [pool]}},
        {"type": "rdma", "rdma": {"require": true, "timeoutMs": 60000}},
    ]);
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "rails", "annotations": {"k8s.v1.cni.cncf.io/resourceName": RESOURCE}},
        "spec": {"config": json!({"cniVersion": "1.0.0", "name": "rails", "plugins": plugins}).to_string()},
    })
}

/// A pod with a VF and no privileges.
fn pod_with_vf(name: &str) -> Value {
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "rails"});
    let security = json!({
        "runAsUser": 65534, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    });
    pod(name, &annotations, &json!({RESOURCE: 1}), &json!({"securityContext": security}))
}

fn apply(kubernetes: &Kubernetes, objects: &[Value]) {
    objects.iter().for_each(|object| kubernetes.api.apply(object));
}

struct ExclusiveNode {
    kubernetes: Kubernetes,
    machine: LabMachine,
    file: PathBuf,
    daemon: Daemon,
    _directory: tempfile::TempDir,
}

impl ExclusiveNode {
    fn new() -> Self {
        let (kubernetes, machine) = (Kubernetes::here(), LabMachine::exclusive());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("resources.json");
        let resource = json!({
            "resourceName": "mellanoxrdma", "resourcePrefix": "spidernet.io", "ncclConf": true,
            "selectors": {"devices": ["10ca"], "isRdma": true},
        });
        fs::write(&file, json!({"resourceList": [resource]}).to_string()).unwrap();
        let daemon = start(&file);
        apply(&kubernetes, &[network()]);
        Self { kubernetes, machine, file, daemon, _directory: directory }
    }

    fn has(&self, capacity: u32, allocatable: u32) {
        self.kubernetes.wait_for_resource(RESOURCE, capacity, allocatable);
    }

    /// Checks that a pod has one VF, its RDMA device and its device nodes, and was told so. Returns the PCI address of the VF.
    fn vf_of(&self, pod: &str) -> String {
        let seen = self.kubernetes.exec(pod, LOOK);
        let parts: Vec<_> = seen.split("---\n").map(str::trim).collect();
        let [told, nccl, devices, nodes, opened, addresses, gids] = parts[..] else { panic!("{seen}") };
        let told: Value = serde_json::from_str(told).unwrap();
        let device = &told["devices"][0];
        assert_eq!(told["devices"].as_array().unwrap().len(), 1, "{seen}");
        assert_eq!(told["pod"]["name"], pod);
        let name = device["name"].as_str().unwrap();
        let uverbs = device["charDevices"][0].as_str().unwrap().strip_prefix("/dev/infiniband/").unwrap();
        assert_eq!((devices, without_rdma_cm(nodes), opened), (name, vec![uverbs], uverbs), "{seen}");
        let address = device["gids"][0]["address"].as_str().unwrap();
        assert!(addresses.contains(&format!("inet {address}/16")), "{seen}");
        let index = device["gids"][0]["index"].as_u64().unwrap();
        let octets: Vec<u8> = address.split('.').map(|part| part.parse().unwrap()).collect();
        let hexadecimal = format!("{:02x}{:02x}:{:02x}{:02x}", octets[0], octets[1], octets[2], octets[3]);
        let gid = format!("/gids/{index}:0000:0000:0000:0000:0000:ffff:{hexadecimal}");
        assert!(gids.lines().any(|line| line.ends_with(&gid)), "{seen}");
        assert!(nccl.ends_with(&format!("NCCL_IB_HCA=={name}:1\nNCCL_IB_GID_INDEX={index}")), "{seen}");
        device["pciAddress"].as_str().unwrap().to_owned()
    }

    /// Runs pods at once, and deletes them at once.
    fn run(&self, number: usize) {
        let names: Vec<_> = (0..number).map(|number| format!("job-{number}")).collect();
        apply(&self.kubernetes, &names.iter().map(|name| pod_with_vf(name)).collect::<Vec<_>>());
        self.kubernetes.wait_for_pods(names.len());
        let vfs: BTreeSet<_> = names.iter().map(|name| self.vf_of(name)).collect();
        assert_eq!(vfs.len(), names.len(), "two pods have the same VF: {vfs:?}");
        self.kubernetes.delete_pods();
    }
}

/// Starts the daemon. Until the kubelet watches it, the node's status has the devices of the one before, and the kubelet refuses pods.
fn start(file: &Path) -> Daemon {
    let file = file.to_str().unwrap();
    let daemon =
        Daemon::start(&["--device-plugin", file, "--device-plugin.hold", "1", "--kubernetes", "off"]);
    wait_for_watches(&daemon, 1);
    daemon
}

#[test]
fn a_pod_without_privileges_uses_its_vf_and_is_told_what_it_has() {
    let mut node = ExclusiveNode::new();
    node.has(14, 14);
    apply(&node.kubernetes, &[pod_with_vf("train-0")]);
    node.kubernetes.wait_for_pods(1);
    let vf = node.vf_of("train-0");
    // The pod keeps its VF while the kubelet, then the daemon, starts again, and the others can be allocated.
    node.kubernetes.restart_kubelet();
    wait_for_watches(&node.daemon, 2);
    drop(node.daemon);
    node.daemon = start(&node.file);
    // The files are written again.
    for file in ["rdma.json", "nccl.conf"] {
        let directory = Path::new("/run/silkrail/pod-files/spidernet.io_mellanoxrdma").join(&vf);
        fs::remove_file(directory.join(file)).unwrap();
    }
    node.kubernetes.restart_container("train-0");
    assert_eq!(node.vf_of("train-0"), vf);
    let pf_of = |pf: &str| fs::read_link(format!("/sys/class/net/{pf}/device")).unwrap();
    let pf = fs::read_link(format!("/sys/bus/pci/devices/{vf}/physfn")).unwrap();
    let other = if pf.file_name() == pf_of("eth0").file_name() { "eth1" } else { "eth0" };
    node.machine.node.run("lab-vfs", &["0", other]);
    node.has(7, 7);
    node.machine.node.run("lab-vfs", &["7", other]);
    node.has(14, 14);
    assert_eq!(node.vf_of("train-0"), vf);
    let is_unhealthy = |line: &str| line.contains("unhealthy") && line.contains(&vf);
    assert!(!node.daemon.log().lines().any(is_unhealthy), "{}", node.daemon.log());
    node.kubernetes.delete_pods();
    let vfs: Vec<_> = node.machine.vfs().into_iter().map(|vf| vf.rdma).collect();
    assert!(vfs.iter().all(|rdma| !rdma.is_empty()), "{vfs:?}");
    assert_eq!(state_files(), [""; 0]);
}

#[test]
fn a_network_that_names_a_vf_itself_does_not_start_with_that_of_another_pod() {
    let node = ExclusiveNode::new();
    node.has(14, 14);
    let vfs = node.machine.vfs();
    let names_vf = |vf: &str| {
        let mut network = network();
        network["metadata"] = json!({"name": "rails"});
        let mut chain: Value = serde_json::from_str(network["spec"]["config"].as_str().unwrap()).unwrap();
        chain["plugins"][0]["deviceID"] = vf.into();
        chain["plugins"][1]["deviceID"] = vf.into();
        network["spec"]["config"] = chain.to_string().into();
        network
    };
    node.kubernetes.api.delete("network-attachment-definitions", "default", "rails");
    // Of equal VFs the device plugin prefers the first.
    apply(&node.kubernetes, &[names_vf(&vfs[5].pci), pod_with_vf("train-0")]);
    let error = node.kubernetes.wait_for_container_error("train-0");
    let expected =
        format!("but its interface net1 (network rails) has {}, which was not allocated to it", vfs[5].pci);
    assert!(
        error.contains("pod default/train-0 was allocated 0000:") && error.contains(&expected),
        "{error}"
    );
    node.kubernetes.delete_pods();
    node.kubernetes.api.delete("network-attachment-definitions", "default", "rails");
    assert_eq!(state_files(), [""; 0]);
}

/// The kubelet cannot admit the pod whose device is allocated while the daemon is killed; nothing else is lost.
#[test]
fn a_daemon_that_is_killed_in_allocate_loses_no_device() {
    let mut node = ExclusiveNode::new();
    node.has(14, 14);
    // The process that serves the device plugin.
    let writer = node.daemon.writer().to_string();
    let signal =
        |signal: &str| assert!(Command::new("kill").args([signal, &writer]).status().unwrap().success());
    // Allocate waits for a device that another network namespace still has, which the daemon cannot have told the kubelet.
    signal("-STOP");
    let former = node.machine.node.pod("former");
    for vf in node.machine.vfs() {
        node.machine.node.run_ip(&format!("link set {} netns {}", vf.link, former.path().display()));
    }
    node.kubernetes.wait_for_allocation(|| apply(&node.kubernetes, &[pod_with_vf("train-0")]));
    signal("-CONT");
    wait_until("Allocate waits", || node.daemon.log().contains("Allocate waits"));
    signal("-KILL");
    let refusal = node.kubernetes.wait_for_refusal("train-0");
    assert!(
        refusal.contains("Allocate failed due to rpc error") && !refusal.contains("still has"),
        "{refusal}"
    );
    drop(former);
    drop(node.daemon);
    node.daemon = start(&node.file);
    node.has(14, 14);
    node.kubernetes.delete_pods();
    apply(&node.kubernetes, &[pod_with_vf("train-1")]);
    node.kubernetes.wait_for_pods(1);
    node.vf_of("train-1");
    node.kubernetes.delete_pods();
    assert_eq!(state_files(), [""; 0]);
}

#[test]
fn pods_start_and_end_at_once_and_no_two_have_the_same_vf() {
    let node = ExclusiveNode::new();
    node.has(14, 14);
    let before = node.machine.node.snapshot();
    let rounds = env::var("KUBE_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    for _ in 0..rounds {
        node.run(if Share::of_tests_of(&["pkg/device-plugin"]).is_all() { 14 } else { 3 });
    }
    node.machine.node.snapshot().assert_is(&before);
    assert_eq!(state_files(), [""; 0]);
}
