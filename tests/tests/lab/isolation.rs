//! `sriov` with `rdmaIsolation`: one plugin moves the link and the RDMA device of a VF.

use serde_json::{Value, json};
use testkit::{Call, Observe, Share, TestPod, wait_until};

use silkrail_tests::machine::{LabMachine, LabVf, rdma_devices};

fn sriov(machine: &LabMachine, vf: &LabVf, pod: &TestPod, settings: &Value) -> Call {
    let mut conf = json!({"deviceID": vf.pci, "rdmaIsolation": true});
    conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    machine.plugin("sriov", &conf).pod(pod)
}

/// Returns the key `rdma` of the only pod map entry.
fn entry(machine: &LabMachine) -> Value {
    let map = machine.node.state_dir().join("podmap/v1");
    let file = std::fs::read_dir(map).unwrap().next().unwrap().unwrap().path();
    serde_json::from_str::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap()["rdma"].clone()
}

#[test]
fn a_pod_gets_link_and_rdma_device_and_both_return_to_the_host() {
    let machine = LabMachine::exclusive();
    let (before, numbers) = (machine.node.snapshot(), machine.char_devices());
    let vf = machine.vf("eth0", 3);
    for ends in [false, true] {
        let pod = machine.node.pod("a");
        let sriov = sriov(&machine, &vf, &pod, &json!({"vlan": 7, "rdma": {"require": true}}));
        let result = sriov.add().ok();
        assert_eq!(rdma_devices(&pod), std::slice::from_ref(&vf.rdma));
        assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci);
        let entry = entry(&machine);
        assert_eq!(
            (&entry["mode"], &entry["ibdev"], &entry["pci"]),
            (&json!("exclusive"), &json!(vf.rdma), &json!(vf.pci))
        );
        let mut expected = numbers[&vf.pci].clone();
        expected.sort();
        assert_eq!(entry["charDevices"], json!(expected));
        sriov.check_after(&result).done();
        sriov.add().error(102).says(&["already exists"]);
        let pod = (!ends).then_some(pod);
        sriov.del().done();
        sriov.del().done();
        drop(pod);
        wait_until("all devices are on the host", || machine.node.snapshot().difference(&before).is_empty());
        assert_eq!(machine.char_devices(), numbers);
    }
}

#[test]
fn invariant_1_isolation_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 3);
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/main/sriov"]).steps(&format!("isolation {fault}")) {
            let pod = machine.node.pod("a");
            let sriov = sriov(&machine, &vf, &pod, &json!({"vlan": 321, "trust": "on", "mtu": 1400}));
            let answer = sriov.clone().fault(&format!("{fault}:{step}")).add();
            let pod = (step % 2 == 0).then_some(pod);
            if fault == "kill" || answer.status.success() {
                sriov.del().done();
            }
            drop(pod);
            machine.node.snapshot().assert_is(&before);
            if answer.status.success() {
                assert!(step > 12, "only {step} steps were seen");
                break;
            }
        }
    }
}

#[test]
fn check_reports_an_rdma_device_that_left_the_pod() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let sriov = sriov(&machine, &vf, &pod, &json!({}));
    let result = sriov.add().ok();
    machine.node.run_ip("netns attach host 1");
    pod.run("rdma", &["dev", "set", &vf.rdma, "netns", "host"]);
    machine.node.run_ip("netns delete host");
    sriov.check_after(&result).error(103).says(&[&vf.rdma, "is not in the pod"]);
    sriov.del().done();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn invariant_9_sriov_rejects_rdma_require_without_rdma_isolation() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let alone = |rdma: Value| {
        sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": false, "rdma": rdma})).add().error(7)
    };
    alone(json!({"require": true})).says(&["rdma.require", "\"rdmaIsolation\": true"]);
    alone(json!(7)).says(&["rdma", "7"]);
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn with_rdma_isolation_the_rdma_plugin_is_refused() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let sriov = sriov(&machine, &vf, &pod, &json!({}));
    let result = sriov.add().ok();
    let rdma = machine.plugin("rdma", &json!({"deviceID": vf.pci, "prevResult": result})).pod(&pod);
    rdma.add().error(7).says(&[&vf.pci, "rdmaIsolation"]);
    rdma.del().done();
    assert_eq!(rdma_devices(&pod), [vf.rdma], "the rdma plugin does not return the device");
    sriov.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn in_shared_mode_isolation_is_refused_before_any_change() {
    let machine = LabMachine::shared();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let before = machine.node.snapshot();
    let sriov = sriov(&machine, &vf, &pod, &json!({}));
    sriov.add().error(100).says(&["set to shared", "exclusive"]);
    sriov.status().error(50).says(&["set to shared"]);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn gc_reverts_an_isolated_attachment() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 5), machine.node.pod("a"));
    let sriov = sriov(&machine, &vf, &pod, &json!({}));
    sriov.add().ok();
    pod.end();
    sriov.with("cni.dev/valid-attachments", &json!([])).gc().done();
    machine.node.snapshot().assert_is(&before);
}
