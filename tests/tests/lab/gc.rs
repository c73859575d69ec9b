//! `silkrail gc` and the plugins' GC: VFs and RDMA devices of attachments without a DEL.

use std::fs;

use serde_json::{Value, json};
use testkit::{Observe, wait_until};

use silkrail_tests::{
    chain::Chain,
    cli::{CommandOutput, silkrail},
    machine::{LabMachine, rdma_devices},
    rxe::RxeProgram,
};

fn gc(machine: &LabMachine, args: &str) -> CommandOutput {
    silkrail(&format!("gc --state-dir {} {args}", machine.node.state_dir().display()))
}

/// Returns the findings with this state, as `what object`.
fn with_state(machine: &LabMachine, args: &str, state: &str) -> Vec<String> {
    let found = gc(machine, &format!("{args} --json")).ended(0).json();
    let text = |finding: &Value| {
        format!("{} {}", finding["what"].as_str().unwrap(), finding["object"].as_str().unwrap())
    };
    found.as_array().unwrap().iter().filter(|finding| finding["state"] == state).map(text).collect()
}

fn remove_journals(machine: &LabMachine) {
    fs::remove_dir_all(machine.node.state_dir().join("attachments")).unwrap();
}

#[test]
fn a_chain_without_a_del_is_reverted_after_its_pod_is_gone() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    Chain::new(&machine, &vf, &pod, json!({"vlan": 321, "trust": "on", "mtu": 1400})).add();
    pod.end();
    let stale = [
        "journal rdma of network rail0",
        "journal silkrail-ipam of network rail0",
        "journal sriov of network rail0",
    ];
    assert_eq!(with_state(&machine, "", "stale"), stale);
    let ran = gc(&machine, "--yes").ended(0);
    assert!(ran.stdout.contains("is dead"), "{}", ran.stdout);
    machine.node.snapshot().assert_is(&before);
    assert!(gc(&machine, "--yes").ended(0).stdout.contains("nothing to revert"));
}

#[test]
fn a_chain_of_a_running_pod_is_not_changed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 321}));
    let result = chain.add();
    let before = machine.node.snapshot();
    assert_eq!(gc(&machine, "--yes").ended(0).stdout, "nothing to revert\n");
    machine.node.snapshot().assert_is(&before);
    assert_eq!(rdma_devices(&pod), std::slice::from_ref(&vf.rdma));
    chain.check(&result);
    chain.del();
}

/// CRI-O collects each network of its directory, and lists the attachments that it made itself (`GC` in pkg/ocicni/ocicni.go of
/// ocicni): none if only Multus attaches pods to the network, or those of the pods' first interfaces.
#[test]
fn a_pod_under_load_keeps_its_devices_whatever_a_runtime_lists() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 321}));
    let result = chain.add();
    let load = RxeProgram::spawn(pod.command("busybox").args(["ping", "-q", "172.81.0.250"]));
    let of = |id: &str, ifname: &str| json!([{"containerID": id, "ifname": ifname}]);
    let own = format!("pod-{}-{}", vf.pf, vf.index);
    let lists = [json!([]), of("another", "net1"), of(&own, "eth0"), of("another", "eth0"), of(&own, "net1")];
    let sent = || pod.ip("-statistics link show dev net1")[0]["stats64"]["tx"]["packets"].as_u64().unwrap();
    for list in &lists {
        for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
            for call in [chain.rdma(), chain.sriov()] {
                call.with(key, list).gc().done();
            }
        }
        let before = sent();
        wait_until("the pod sends more", || sent() > before);
        assert_eq!(rdma_devices(&pod), std::slice::from_ref(&vf.rdma), "{list}");
        chain.check(&result);
    }
    drop(load);
    chain.del();
}

#[test]
fn invariant_1_killed_adds_of_a_running_pod_are_reverted() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 0);
    for step in [1, 3, 6, 9] {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 321, "trust": "on", "mtu": 1400}));
        assert!(chain.sriov().clone().fault(&format!("kill:{step}")).add().was_killed(), "step {step}");
        gc(&machine, "--yes").ended(0);
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    for step in [1, 4] {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        let result = chain.sriov().add().ok();
        let killed = chain.rdma().with("prevResult", &result).fault(&format!("kill:{step}")).add();
        assert!(killed.was_killed(), "step {step}");
        gc(&machine, "--yes").ended(0);
        assert!(
            machine.rdma_devices().contains(&vf.rdma),
            "the RDMA device is on the host; the VF is in the pod"
        );
        assert!(pod.link("net1").is_some());
        chain.sriov().del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn claims_without_a_journal_are_released_only_after_their_namespace_is_gone() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    remove_journals(&machine);
    let claims = [format!("rdma-device {}", vf.pci), format!("vf {}", vf.pci)];
    let kept = with_state(&machine, "--yes", "kept");
    assert_eq!(kept[..2], claims);
    assert!(kept.iter().any(|it| it == "address 172.81.0.100"), "{kept:?}");
    pod.end();
    let gone = with_state(&machine, "--yes", "reverted");
    assert!(claims.iter().all(|claim| gone.contains(claim)), "{gone:?}");
    assert!(machine.node.snapshot().state().is_empty(), "{:?}", machine.node.snapshot().state());
    let next = machine.node.pod("b");
    let chain = Chain::new(&machine, &vf, &next, json!({}));
    chain.add();
    chain.del();
}

#[test]
fn gc_of_the_plugins_releases_claims_without_a_journal() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    remove_journals(&machine);
    let valid = |containers: &[&str]| -> Value {
        containers.iter().map(|id| json!({"containerID": id, "ifname": "net1"})).collect()
    };
    let collect = |valid: &Value| {
        for call in [chain.rdma(), chain.sriov()] {
            call.with("cni.dev/valid-attachments", valid).gc().done();
        }
    };
    let state = || machine.node.snapshot().state().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (a_vf, an_rdma) = (format!("vf/{}", vf.pci), format!("rdma/{}", vf.pci));
    let has_both = |state: &[String]| state.contains(&a_vf) && state.contains(&an_rdma);
    collect(&valid(&[]));
    assert!(has_both(&state()), "the pod is running: {:?}", state());
    pod.end();
    collect(&valid(&["pod-eth1-1"]));
    assert!(has_both(&state()), "the attachment is valid: {:?}", state());
    collect(&valid(&[]));
    assert!(!state().contains(&a_vf) && !state().contains(&an_rdma), "{:?}", state());
    gc(&machine, "--yes").ended(0);
    assert!(state().is_empty(), "{:?}", state());
}

#[test]
fn status_of_sriov_requires_any_vf_or_the_configured_one() {
    let machine = LabMachine::exclusive();
    machine.plugin("sriov", &json!({})).status().done();
    let vf = machine.vf("eth0", 0);
    machine.plugin("sriov", &json!({"deviceID": vf.pci})).status().done();
    let gone = machine.plugin("sriov", &json!({"deviceID": "0000:ff:1f.7"})).status();
    gone.error(50).says(&["0000:ff:1f.7", "no PCI device"]);
}
