//! `sriov`: the index of a VF's link, in the pod and after its return to the host.

use serde_json::json;
use silkrail_tests::machine::{LabMachine, LabVf};
use testkit::{Observe, Share};

use crate::sriov::call;

#[test]
fn a_vf_whose_index_is_in_use_in_the_pod_gets_another_and_its_own_on_return() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 1), machine.node.pod("a"));
    let index = || machine.node.link(&vf.link).unwrap()["ifindex"].clone();
    let host_index = index();
    pod.run_ip(&format!("link add eth0 index {host_index} address 02:00:00:00:00:01 mtu 1300 type dummy"));
    let other = pod.link("eth0").unwrap();
    let call = call(&machine, &vf, &pod, json!({"mac": "c2:11:22:33:44:55", "mtu": 1400}));
    call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci);
    assert_eq!(pod.link("eth0").unwrap(), other);
    call.del().done();
    assert_eq!(pod.link("eth0").unwrap(), other);
    assert_eq!(index(), host_index);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn on_an_old_kernel_a_vf_is_identified_by_its_index_in_the_pod() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, other) = (machine.vf("eth1", 1), machine.vf("eth1", 2));
    for kernel in ["5.4", "5.5", "5.12", "5.13"] {
        let pod = machine.node.pod("a");
        let host_index = machine.node.link(&vf.link).unwrap()["ifindex"].clone();
        pod.run_ip(&format!("link add eth0 index {host_index} type dummy"));
        let call = |vf: &LabVf| call(&machine, vf, &pod, json!({"mtu": 1400})).env("SILKRAIL_KERNEL", kernel);
        let (call, neighbour) = (call(&vf), call(&other).ifname("net2"));
        let result = call.add().ok();
        neighbour.add().ok();
        call.check_after(&result).done();
        assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci, "Linux {kernel}");
        // A pod may rename its links.
        for command in ["net1 down", "net2 down", "net1 name mine", "net2 name net1"] {
            pod.run_ip(&format!("link set {command}"));
        }
        call.del().done();
        assert!(pod.link("mine").is_none(), "Linux {kernel}");
        assert_eq!(pod.link("net1").unwrap()["parentdev"], other.pci, "Linux {kernel}");
        neighbour.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_1_on_an_old_kernel_a_killed_add_is_reverted() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 3);
    for step in Share::of_tests_of(&["plugins/main/sriov"]).steps("old kernel") {
        let pod = machine.node.pod("a");
        let host_index = machine.node.link(&vf.link).unwrap()["ifindex"].clone();
        pod.run_ip(&format!("link add eth0 index {host_index} type dummy"));
        let call = call(&machine, &vf, &pod, json!({"mtu": 1400})).env("SILKRAIL_KERNEL", "5.4");
        let killed = call.clone().fault(&format!("kill:{step}")).add().was_killed();
        call.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !killed {
            assert!(step > 6, "only {step} steps were seen");
            break;
        }
    }
}
