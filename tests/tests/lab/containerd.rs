//! containerd 2: its condition `NetworkReady`, and a sandbox with a VF.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use silkrail_tests::{
    containerd::{Containerd, Release},
    machine::{LabMachine, LabVf, PFS, pool, rdma_devices},
};
use testkit::{Observe, inside, wait_until};

/// containerd calls STATUS and GC only for configurations of this version.
const VERSION: &str = "1.1.0";

#[test]
fn a_full_pool_keeps_the_runtime_ready_and_the_pod_event_contains_the_remedy() {
    let machine = LabMachine::bare();
    // A PF has no carrier for a moment after its VFs were removed.
    wait_until("the PFs have a carrier", || PFS.iter().all(|pf| has_carrier(&machine, pf)));
    let before = machine.node.snapshot();
    let pool = json!({
        "name": "rail0", "subnet": "172.81.0.0/16", "ips": ["172.81.0.100-172.81.0.101"], "gateway": "172.81.0.1",
    });
    let macvlan = json!({
        "type": "macvlan", "master": "eth0", "stateDir": machine.node.state_dir(),
        "ipam": {"type": "silkrail-ipam", "pools": [pool]},
    });
    let network = json!({"cniVersion": VERSION, "name": "rail0", "plugins": [macvlan]});
    let containerd = Containerd::with_network(Release::Two, machine.node.cni_path(), &network);
    let cri = &containerd.cri;
    wait_until("the network is ready", || cri.network_ready().holds);

    let pods = ["first", "second"].map(|name| cri.run_pod_sandbox(name).unwrap());
    let event = cri.run_pod_sandbox("third").unwrap_err().message().to_owned();
    for part in ["rail0", "2 of 2", "default/first", "extend its ips", "silkrail gc"] {
        assert!(event.contains(part), "the pod's event does not contain {part:?}: {event}");
    }
    // containerd calls STATUS of the plugins for each status request.
    let condition = cri.network_ready();
    assert!(condition.holds, "a kubelet would make the node NotReady: {condition:?}");

    cri.remove_pod_sandbox(&pods[0]).unwrap();
    let third = cri.run_pod_sandbox("third").unwrap();
    for pod in [&pods[1], &third] {
        cri.remove_pod_sandbox(pod).unwrap();
    }
    drop(containerd);
    machine.node.snapshot().assert_is(&before);
}

fn has_carrier(machine: &LabMachine, link: &str) -> bool {
    let link = machine.node.link(link).unwrap();
    link["flags"].as_array().unwrap().iter().any(|flag| flag == "LOWER_UP")
}

/// The network namespace of a sandbox.
struct Sandbox(PathBuf);

impl Sandbox {
    /// Returns the only sandbox of containerd.
    fn only(containerd: &Containerd) -> Self {
        let listed: Vec<_> = fs::read_dir(containerd.path("/run/netns")).unwrap().flatten().collect();
        assert_eq!(listed.len(), 1, "{listed:?}");
        Self(listed[0].path())
    }
}

impl Observe for Sandbox {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.0.display())).arg(program);
        command
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.0, work)
    }
}

fn exclusive_chain(machine: &LabMachine, vf: &LabVf) -> Value {
    let (device, state) = (&vf.pci, machine.node.state_dir());
    let ipam = json!({"type": "silkrail-ipam", "pools": [pool()]});
    let sriov = json!({"type": "sriov", "deviceID": device, "stateDir": state, "ipam": ipam});
    let rdma = json!({"type": "rdma", "deviceID": device, "stateDir": state});
    json!({"cniVersion": VERSION, "name": "rail0", "plugins": [sriov, rdma]})
}

#[test]
fn a_vf_and_its_rdma_device_are_in_the_sandbox_and_return_also_if_containerd_is_killed_meanwhile() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 2);
    let before = machine.node.snapshot();
    let network = exclusive_chain(&machine, &vf);
    let mut containerd = Containerd::with_network(Release::Two, machine.node.cni_path(), &network);
    wait_until("the network is ready", || containerd.cri.network_ready().holds);
    for killed in [false, true] {
        let id = containerd.cri.run_pod_sandbox(&format!("job-{killed}")).unwrap();
        let address = containerd.cri.address(&id).unwrap();
        let sandbox = Sandbox::only(&containerd);
        assert_eq!(sandbox.addresses("eth0"), [format!("{address}/16")]);
        assert_eq!(rdma_devices(&sandbox), [vf.rdma.as_str()]);
        let on_host = machine.vf("eth0", 2);
        assert_eq!((on_host.link.as_str(), machine.rdma_devices().contains(&vf.rdma)), ("", false));
        if killed {
            containerd.kill();
            containerd.restart();
        }
        containerd.cri.remove_pod_sandbox(&id).unwrap();
        machine.node.snapshot().assert_is(&before);
    }
}
