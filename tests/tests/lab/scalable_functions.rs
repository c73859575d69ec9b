//! `sriov` and `rdma` with a scalable function (SF): an auxiliary device, which has no settings on its PF.

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod, wait_until};

use silkrail_tests::machine::{LabMachine, LabScalableFunction, rdma_devices};

fn call(machine: &LabMachine, sf: &LabScalableFunction, pod: &TestPod, settings: Value) -> Call {
    let mut conf = json!({"deviceID": sf.name});
    conf.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    machine.plugin("sriov", &conf).pod(pod)
}

#[test]
fn a_scalable_function_moves_with_its_rdma_device_and_returns() {
    let machine = LabMachine::exclusive();
    let (sf, _created) = machine.scalable_function("eth0");
    let (link, rdma) = (sf.link(), sf.rdma());
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let settings = json!({"rdmaIsolation": true, "mac": "c2:11:22:33:44:55", "mtu": 1400});
    let call = call(&machine, &sf, &pod, settings);
    let result = call.add().ok();
    assert_eq!(result["interfaces"][0]["mac"], "c2:11:22:33:44:55");
    assert_eq!(result["interfaces"][0]["pciID"], Value::Null, "it is not a PCI function");
    let net1 = pod.link("net1").unwrap();
    assert_eq!((&net1["parentdev"], &net1["mtu"]), (&json!(sf.name), &json!(1400)));
    assert_eq!(pod.addresses("net1"), ["172.81.0.100/16"]);
    assert_eq!(rdma_devices(&pod), std::slice::from_ref(&rdma));
    call.with("prevResult", &result).check().done();
    call.del().done();
    drop(pod);
    assert_eq!((sf.link(), sf.rdma()), (link, rdma));
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_068_the_rdma_device_of_an_auxiliary_device_is_moved() {
    let machine = LabMachine::exclusive();
    let (sf, _created) = machine.scalable_function("eth1");
    let rdma_device = sf.rdma();
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let sriov = call(&machine, &sf, &pod, json!({}));
    let result = sriov.add().ok();
    for device in [json!(sf.name), json!(null)] {
        let conf = json!({"deviceID": device, "prevResult": result});
        let rdma = machine.plugin("rdma", &conf).pod(&pod);
        rdma.add().ok();
        assert_eq!(rdma_devices(&pod), std::slice::from_ref(&rdma_device));
        rdma.check().done();
        rdma.del().done();
    }
    sriov.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_scalable_function_of_a_pod_that_is_gone_returns() {
    let machine = LabMachine::exclusive();
    let (sf, _created) = machine.scalable_function("eth0");
    let before = machine.node.snapshot();
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    let former = call(&machine, &sf, &first, json!({"rdmaIsolation": true, "mtu": 1400}));
    former.add().ok();
    let next = call(&machine, &sf, &second, json!({})).container("next");
    next.add().error(102).says(&["is already allocated", &sf.name]);
    first.end();
    next.add().ok();
    former.del().done();
    assert_eq!(second.link("net1").unwrap()["mtu"], 1500);
    second.end();
    next.del().done();
    wait_until("the SF is on the host", || !sf.link().is_empty() && !sf.rdma().is_empty());
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn settings_of_a_vf_are_refused_for_a_scalable_function() {
    let machine = LabMachine::exclusive();
    let (sf, _created) = machine.scalable_function("eth0");
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let settings = [
        ("vlan", json!(100)),
        ("max_tx_rate", json!(1000)),
        ("spoofchk", json!("off")),
        ("trust", json!("on")),
        ("link_state", json!("auto")),
    ];
    for (key, value) in settings {
        let refusal = call(&machine, &sf, &pod, json!({key: value})).add().error(2);
        refusal.says(&[key, &sf.name]);
        assert!(refusal.details.contains("remove"), "{refusal:?}");
    }
    let missing = json!({"deviceID": "mlx5_core.sf.6"});
    call(&machine, &sf, &pod, missing).add().error(7).says(&["deviceID", "mlx5_core.sf.6"]);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn status_of_a_node_with_a_scalable_function_succeeds() {
    let machine = LabMachine::bare();
    let status = |device: &str| machine.plugin("sriov", &json!({"deviceID": device})).status();
    status("").error(50).says(&["no VF"]);
    let (sf, _created) = machine.scalable_function("eth0");
    status("").done();
    status(&sf.name).done();
    status("mlx5_core.sf.6").error(50).says(&["mlx5_core.sf.6"]);
}
