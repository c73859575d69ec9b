//! `ib-sriov`: a pod gets an InfiniBand VF with its IPoIB link, and its RDMA device if that is configured.

use std::{fs, path::Path, thread};

use serde_json::{Value, json};
use testkit::{Call, Observe, Share, TestPod};

use silkrail_tests::{
    infiniband::{InfinibandMachine, InfinibandVf, settings},
    machine::rdma_devices,
};

/// Another GUID than those of the VFs.
pub(crate) const GUID: &str = "02:00:00:00:00:00:ab:cd";

pub(crate) fn ib_sriov(machine: &InfinibandMachine, vf: &InfinibandVf, pod: &TestPod, more: &Value) -> Call {
    machine.plugin("ib-sriov", &settings(vf, more)).pod(pod)
}

/// Returns the port GUID in the address of an IPoIB link, as `ip link` prints it.
fn guid_of(link: &Value) -> String {
    let address = link["address"].as_str().unwrap();
    address[address.len() - GUID.len()..].to_owned()
}

#[test]
fn a_pod_gets_the_ipoib_link_and_the_rdma_device_and_both_return_to_the_host() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    for (index, isolation, ends) in [(0, true, false), (1, true, true), (1, false, false), (2, false, true)] {
        let (vf, numbers) = (machine.vf(index), machine.char_devices(index));
        let pod = machine.machine.node.pod("a");
        let call =
            ib_sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": isolation, "link_state": "enable"}));
        let result = call.add().ok();
        let link = pod.link("net1").unwrap();
        assert_eq!(link["parentdev"], vf.pci);
        assert_eq!(guid_of(&link), format!("02:00:00:00:00:00:00:0{}", index + 1));
        assert_eq!(result["interfaces"][0]["mac"], link["address"]);
        assert_eq!(result["interfaces"][0]["mtu"], link["mtu"]);
        assert_eq!(result["interfaces"][0]["pciID"], vf.pci);
        assert_eq!(pod.addresses("net1").len(), 1);
        assert_eq!(machine.vf_info(index)["link_state"], "enable");
        let expected = if isolation { vec![vf.rdma.clone()] } else { Vec::new() };
        assert_eq!(rdma_devices(&pod), expected);
        call.check_after(&result).done();
        call.add().error(102).says(&["already exists"]);
        // The link keeps it when it moves.
        pod.run_ip("link set net1 type ipoib umcast 1");
        let pod = (!ends).then_some(pod);
        call.del().done();
        call.del().done();
        drop(pod);
        machine.machine.node.snapshot().assert_is(&before);
        assert_eq!(machine.vf(index).link, vf.link, "it has its former name");
        assert_eq!(machine.char_devices(index), numbers);
    }
}

#[test]
fn case_111_a_configured_guid_is_set_and_the_former_one_is_restored() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    for isolation in [false, true] {
        let (vf, numbers) = (machine.vf(1), machine.char_devices(1));
        let pod = machine.machine.node.pod("a");
        let runtime = json!({"runtimeConfig": {"infinibandGUID": GUID}, "rdmaIsolation": isolation});
        let call = ib_sriov(&machine, &vf, &pod, &runtime);
        let result = call.add().ok();
        let info = machine.vf_info(1);
        assert_eq!((&info["node guid"], &info["port guid"]), (&json!(GUID), &json!(GUID)), "{info}");
        assert_eq!(guid_of(&pod.link("net1").unwrap()), GUID, "the driver was bound again");
        assert_eq!(machine.char_devices(1), numbers);
        call.check_after(&result).done();
        machine
            .machine
            .node
            .run_ip(&format!("link set {} vf 1 port_guid 02:00:00:00:00:00:00:77", machine.pf_link()));
        call.check_after(&result).error(103).says(&["port GUID 02:00:00:00:00:00:00:77", GUID]);
        call.del().done();
        drop(pod);
        machine.machine.node.snapshot().assert_is(&before);
        let after = machine.vf(1);
        assert_eq!((after.link, after.rdma), (vf.link, vf.rdma));
        assert_eq!(machine.char_devices(1), numbers);
    }
}

#[test]
fn case_112_a_vf_needs_a_guid() {
    let machine = InfinibandMachine::shared();
    for unassigned in ["00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff"] {
        machine.set_guid(2, unassigned);
        let (vf, pod) = (machine.vf(2), machine.machine.node.pod("a"));
        let call = ib_sriov(&machine, &vf, &pod, &json!({}));
        call.add().error(7).says(&["GUID is not valid", unassigned, &vf.pci]);
        assert_eq!(machine.vf(2).link, vf.link);
        assert!(machine.machine.node.snapshot().state().is_empty());
        let call = ib_sriov(&machine, &vf, &pod, &json!({"args": {"cni": {"guid": GUID}}}));
        call.add().ok();
        call.del().done();
        let info = machine.vf_info(2);
        assert_eq!(info["port guid"], "ff:ff:ff:ff:ff:ff:ff:ff", "no GUID is expressed by all bits set");
    }
}

#[test]
fn invariant_1_ib_sriov_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let vf = machine.vf(0);
    let conf =
        json!({"rdmaIsolation": true, "link_state": "enable", "runtimeConfig": {"infinibandGUID": GUID}});
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/main/ib-sriov"]).steps(&format!("ib-sriov {fault}")) {
            let pod = machine.machine.node.pod("a");
            let call = ib_sriov(&machine, &vf, &pod, &conf);
            let answer = call.clone().fault(&format!("{fault}:{step}")).add();
            let pod = (step % 2 == 0).then_some(pod);
            if fault == "kill" || answer.status.success() {
                call.del().done();
            }
            drop(pod);
            machine.machine.node.snapshot().assert_is(&before);
            if answer.status.success() {
                assert!(step > 12, "only {step} steps were seen");
                break;
            }
        }
    }
}

#[test]
fn a_vf_that_was_killed_between_unbind_and_bind_gets_its_driver_back() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(0), machine.machine.node.pod("a"));
    let call = ib_sriov(&machine, &vf, &pod, &json!({"runtimeConfig": {"infinibandGUID": GUID}}));
    call.add().ok();
    fs::write("/sys/bus/pci/drivers/rdmasim_ib/unbind", &vf.pci).unwrap();
    call.del().done();
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_114_a_guid_that_the_pf_refuses_leaves_nothing_changed() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    let call = ib_sriov(&machine, &vf, &pod, &json!({"runtimeConfig": {"infinibandGUID": GUID}}));
    for which in ["node", "port"] {
        let _refuse = machine.machine.simulate(&machine.pf, &format!("refuse_{which}_guid"), "1");
        call.add().error(11).says(&[&format!("failed to add {which} guid {GUID}"), &vf.pci]);
        assert_eq!(machine.vf(1).link, vf.link);
    }
    call.add().ok();
    call.del().done();
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_guid_is_refused_while_a_lower_number_is_free() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod, numbers) = (machine.vf(1), machine.machine.node.pod("a"), machine.char_devices(1));
    let lower = machine.vf(0).pci;
    let drive =
        |file: &str| fs::write(Path::new("/sys/bus/pci/drivers/rdmasim_ib").join(file), &lower).unwrap();
    drive("unbind");
    for isolation in [false, true] {
        let keys = json!({"rdmaIsolation": isolation, "runtimeConfig": {"infinibandGUID": GUID}});
        ib_sriov(&machine, &vf, &pod, &keys).add().error(100).says(&[&vf.rdma, "lower ones are free"]);
        assert_eq!(machine.char_devices(1), numbers, "the driver was not bound again");
        assert_eq!(machine.vf_info(1)["port guid"], "02:00:00:00:00:00:00:02");
    }
    drive("bind");
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_del_that_was_killed_before_the_driver_was_bound_again_is_completed() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    let call = ib_sriov(&machine, &vf, &pod, &json!({"runtimeConfig": {"infinibandGUID": GUID}}));
    call.add().ok();
    for which in ["node_guid", "port_guid"] {
        let former = "02:00:00:00:00:00:00:02";
        machine.machine.node.run_ip(&format!("link set {} vf 1 {which} {former}", machine.pf_link()));
    }
    call.del().done();
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_link_that_the_pod_created_on_its_vf_does_not_reach_the_host() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    for (isolation, ends) in [(false, false), (false, true), (true, false), (true, true)] {
        let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
        let call = ib_sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": isolation}));
        call.add().ok();
        pod.run_ip("link add link net1 name hidden type ipoib pkey 0x8002");
        let pod = (!ends).then_some(pod);
        call.del().done();
        drop(pod);
        machine.machine.node.snapshot().assert_is(&before);
    }
    // A link of the node on the VF keeps the VF on the host.
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    machine.machine.node.run_ip(&format!("link add link {} name storage type ipoib pkey 0x8002", vf.link));
    ib_sriov(&machine, &vf, &pod, &json!({})).add().error(102).says(&["is the parent of storage"]);
    machine.machine.node.run_ip("link delete storage");
}

#[test]
fn case_117_names_in_use_do_not_block_a_vf() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(0), machine.machine.node.pod("a"));
    let node = &machine.machine.node;
    let call = ib_sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": true}));
    pod.run_ip("link add net1 type dummy");
    call.add().error(102).says(&["net1"]);
    assert_eq!(machine.vf(0).link, vf.link);
    pod.run_ip("link delete net1");
    // An altname that the pod has would block the move.
    node.run_ip(&format!("link property add dev {} altname rail7", vf.link));
    pod.run_ip("link add rail7 type dummy");
    call.add().ok();
    // The former name is taken while the VF is in the pod.
    node.run_ip(&format!("link add {} type dummy", vf.link));
    call.del().done();
    assert!(!machine.vf(0).link.is_empty() && machine.vf(0).link != vf.link);
    node.run_ip(&format!("link delete {}", vf.link));
    node.run_ip(&format!("link set {} name {}", machine.vf(0).link, vf.link));
    node.run("ip", &["link", "property", "del", "dev", &vf.link, "altname", "rail7"]);
    drop(pod);
    node.snapshot().assert_is(&before);
}

#[test]
fn case_121_concurrent_attachments_keep_the_names_of_the_rdma_devices() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let pods = ["a", "b", "c"].map(|name| machine.machine.node.pod(name));
    let vfs = [0, 1, 2].map(|index| machine.vf(index));
    let numbers = [0, 1, 2].map(|index| machine.char_devices(index));
    let calls = [0, 1, 2].map(|index| {
        let guid = format!("02:00:00:00:00:00:ab:0{index}");
        let keys = json!({"rdmaIsolation": true, "runtimeConfig": {"infinibandGUID": guid}});
        let container = format!("pod-{index}");
        ib_sriov(&machine, &vfs[index], &pods[index], &keys).container(&container)
    });
    for _ in 0..2 {
        thread::scope(|scope| calls.iter().for_each(|call| drop(scope.spawn(|| call.add().ok()))));
        for (pod, vf) in pods.iter().zip(&vfs) {
            assert_eq!(rdma_devices(pod), std::slice::from_ref(&vf.rdma));
        }
        assert_eq!([0, 1, 2].map(|index| machine.char_devices(index)), numbers);
        thread::scope(|scope| calls.iter().for_each(|call| drop(scope.spawn(|| call.del().done()))));
        assert_eq!([0, 1, 2].map(|index| machine.char_devices(index)), numbers);
    }
    drop(pods);
    machine.machine.node.snapshot().assert_is(&before);
}

#[test]
fn devices_of_the_other_kind_are_refused() {
    let machine = InfinibandMachine::shared();
    let (vf, pod) = (machine.vf(0), machine.machine.node.pod("a"));
    let refused =
        |plugin: &str, device: &str| machine.plugin(plugin, &json!({"deviceID": device})).pod(&pod).add();
    refused("sriov", &vf.pci).error(2).says(&["is an InfiniBand VF"]);
    let ethernet = machine.machine.vf("eth0", 0).pci;
    refused("ib-sriov", &ethernet).error(2).says(&["is not an InfiniBand VF"]);
    let vfio = machine.plugin("ib-sriov", &settings(&vf, &json!({"vfioPciMode": true}))).pod(&pod).add();
    vfio.error(7).says(&["vfioPciMode is enabled but", &vf.pci, "rdmasim_ib"]);
    assert!(machine.machine.node.snapshot().state().is_empty());
}

#[test]
fn an_attachment_of_the_go_plugin_is_reverted() {
    let machine = InfinibandMachine::exclusive();
    let before = machine.machine.node.snapshot();
    let (vf, pod) = (machine.vf(1), machine.machine.node.pod("a"));
    let node = &machine.machine.node;
    let netns = pod.path().to_str().unwrap().to_owned();
    // What the Go plugin does, in its order.
    node.run_ip(&format!("link set {} vf 1 state enable", machine.pf_link()));
    machine.set_guid(1, GUID);
    fs::create_dir_all("/var/run/netns").unwrap();
    node.run("rdma", &["dev", "set", &vf.rdma, "netns", &format!("../../..{netns}")]);
    node.run_ip(&format!("link set {} netns {netns}", machine.vf(1).link));
    pod.run_ip(&format!("link set {} name net1", vf.link));
    pod.run_ip("link set net1 up");
    let state = json!({
        "cniVersion": "1.0.0", "name": "rail0", "type": "ib-sriov", "Master": machine.pf_link(), "deviceID": vf.pci,
        "VFID": 1, "HostIFNames": vf.link, "HostIFGUID": "02:00:00:00:00:00:00:02", "ContIFNames": "net1",
        "link_state": "enable", "rdmaIsolation": true, "RdmaNetState": {
            "version": "1.0", "deviceID": vf.pci, "sandboxRdmaDevName": vf.rdma, "containerRdmaDevName": vf.rdma
        }
    });
    let file = Path::new("/var/lib/cni/ib-sriov/go-1-net1");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, state.to_string()).unwrap();
    let call = ib_sriov(&machine, &vf, &pod, &json!({})).container("go-1");
    call.del().done();
    assert!(!file.exists());
    drop(pod);
    machine.machine.node.snapshot().assert_is(&before);
    assert_eq!(machine.vf(1).link, vf.link);
}

#[test]
fn without_isolation_the_pod_shares_the_rdma_devices_of_the_node() {
    let machine = InfinibandMachine::shared();
    let (vf, pod) = (machine.vf(0), machine.machine.node.pod("a"));
    let isolated = ib_sriov(&machine, &vf, &pod, &json!({"rdmaIsolation": true}));
    isolated.add().error(100).says(&["set to shared"]);
    let call = ib_sriov(&machine, &vf, &pod, &json!({}));
    call.add().ok();
    assert!(rdma_devices(&pod).contains(&vf.rdma));
    call.del().done();
}
