//! containerd 2 and its condition `NetworkReady`.

use serde_json::json;
use silkrail_tests::{
    containerd::{Containerd, Release},
    machine::{LabMachine, PFS},
};
use testkit::{Observe, wait_until};

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
