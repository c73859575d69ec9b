//! Pods that the Go plugins attached before the node was switched to Silkrail.

use std::{fs, path::Path};

use serde_json::{Value, json};
use testkit::{Observe, Snapshot, wait_until};

use silkrail_tests::{chain::Chain, machine::LabMachine};

use crate::go_pod::{GO_STATE, GoPod, age, moved, noted, write};

/// All settings of the Go plugins that this card supports.
fn everything() -> Value {
    json!({
        "vlan": 100, "vlanQoS": 3, "vlanProto": "802.1q", "MAC": "c2:11:22:33:44:55", "spoofchk": "off",
        "trust": "on", "podMtu": 4444
    })
}

fn is_as_before(machine: &LabMachine, before: &Snapshot) {
    machine.node.snapshot().assert_is(before);
}

#[test]
fn case_081_del_reverts_a_running_pod_of_the_go_plugins() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    for settings in [json!({}), everything()] {
        let (vf, pod) = (machine.vf("eth0", 1), machine.node.pod("a"));
        let go = GoPod::attach(&machine, &vf, &pod, &settings);
        assert!(!machine.rdma_devices().contains(&vf.rdma));
        go.del();
        go.has_no_files();
        assert_eq!(pod.link_names(), ["lo"]);
        drop(pod);
        is_as_before(&machine, &before);
        go.del();
        is_as_before(&machine, &before);
    }
}

#[test]
fn case_081_without_a_namespace_path_the_pod_is_found_by_the_allocation() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 2), machine.node.pod("a"));
    let go = GoPod::attach(&machine, &vf, &pod, &json!({"vlan": 7}));
    go.rdma.clone().without("CNI_NETNS").del().done();
    go.sriov.clone().without("CNI_NETNS").del().done();
    go.has_no_files();
    drop(pod);
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_after_the_namespace_is_gone_the_vf_is_restored_on_the_host() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let mut without_mac = everything();
    without_mac.as_object_mut().unwrap().remove("MAC");
    for settings in [json!({}), without_mac] {
        let (vf, pod) = (machine.vf("eth0", 2), machine.node.pod("a"));
        let go = GoPod::attach(&machine, &vf, &pod, &settings);
        pod.end();
        // Immediately: the kernel has not returned any device yet.
        go.del();
        go.has_no_files();
        is_as_before(&machine, &before);
    }
}

#[test]
fn upgrade_after_the_namespace_is_gone_the_former_mac_is_restored() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 2);
    let facts = || {
        // Without the permanent address: igbvf sets it to the address that the link last came up with.
        let link = machine.node.link(&vf.link).unwrap();
        (link["address"].clone(), link["mtu"].clone(), link["flags"].clone(), machine.vf_info(&vf))
    };
    let (before, pod) = (facts(), machine.node.pod("a"));
    let go = GoPod::attach(&machine, &vf, &pod, &everything());
    pod.end();
    go.del();
    go.has_no_files();
    assert_eq!(facts(), before);
    // Setting the link up and down in a pod restores the permanent address for the next test.
    let pod = machine.node.pod("b");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    chain.del();
}

#[test]
fn upgrade_an_unreadable_file_is_kept_and_del_succeeds() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    let go = GoPod::new(&machine, &vf, &pod);
    let before = machine.node.snapshot();
    let invalid = json!({"version": "1.0", "deviceID": "../../etc", "containerRdmaDevName": "x"}).to_string();
    for content in ["", "garbage", "[]", "{\"deviceID\":", &invalid] {
        let [rdma, sriov, _] = &go.files;
        for (call, file) in [(&go.rdma, rdma), (&go.sriov, sriov)] {
            write(file, content);
            let answer = call.del();
            answer.done();
            assert!(answer.stderr.contains("level=warn"), "{content:?}: {answer:?}");
            assert!(answer.stderr.contains(file.to_str().unwrap()), "{content:?}: {answer:?}");
            assert_eq!(fs::read_to_string(file).unwrap(), content);
        }
    }
    assert_eq!(go.ipam.verbs().len(), 5, "the IPAM plugin is called each time");
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_a_symbolic_link_is_not_followed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    let go = GoPod::new(&machine, &vf, &pod);
    let before = machine.node.snapshot();
    let target = machine.node.state_dir().with_file_name("target");
    write(&target, &noted(&machine, &vf, &json!({"vlan": 5})).to_string());
    fs::create_dir_all(go.sriov_file().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, go.sriov_file()).unwrap();
    go.del();
    assert!(target.exists() && go.sriov_file().is_symlink());
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_files_from_before_the_boot_are_only_removed() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let go = GoPod::attach(&machine, &vf, &pod, &json!({"vlan": 9}));
    let attached = machine.node.snapshot();
    let [rdma, sriov, allocation] = go.files.clone();
    let contents = go.files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    go.files.iter().for_each(|file| age(&machine, file));
    go.del();
    is_as_before(&machine, &attached);
    assert!(!rdma.exists() && !sriov.exists());

    // With files of this boot, DEL returns the devices.
    for (file, content) in [rdma, sriov, allocation].iter().zip(&contents) {
        write(file, content);
    }
    go.del();
    drop(pod);
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_a_late_del_does_not_change_the_vf_of_the_next_silkrail_pod() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth1", 5), machine.node.pod("a"), machine.node.pod("b"));
    let go = GoPod::attach(&machine, &vf, &first, &json!({"vlan": 1000}));
    let files = go.files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    first.end();
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 1234}));
    let result = new.add();
    let held = machine.node.snapshot();
    go.del();
    // The same applies if the ADD did not find the Go plugin's file.
    write(go.sriov_file(), &files[1]);
    write(&go.files[0], &files[0]);
    go.del();
    go.has_no_files();
    is_as_before(&machine, &held);
    new.check(&result);
    new.del();
    drop(second);
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_a_late_del_does_not_change_the_next_pod_of_the_go_plugins() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth1", 6), machine.node.pod("a"), machine.node.pod("b"));
    let old = GoPod::new(&machine, &vf, &first);
    let (late, late_rdma) = (old.sriov.clone().container("late"), old.rdma.clone().container("late"));
    let files = ["sriov/late-net1", "rdma/rail0-late-net1"].map(|name| Path::new(GO_STATE).join(name));
    write(&files[0], &noted(&machine, &vf, &json!({"vlan": 1000})).to_string());
    write(&files[1], &moved(&vf).to_string());
    first.end();
    let new = GoPod::attach(&machine, &vf, &second, &json!({"vlan": 1234}));
    let held = machine.node.snapshot();
    late_rdma.del().done();
    late.del().done();
    is_as_before(&machine, &held);
    assert!(files.iter().all(|file| !file.exists()) && new.files.iter().all(|file| file.exists()));
    new.del();
    drop(second);
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_add_is_refused_while_a_pod_of_the_go_plugin_is_running() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth0", 5), machine.node.pod("a"), machine.node.pod("b"));
    let go = GoPod::attach(&machine, &vf, &first, &everything());
    let held = machine.node.snapshot();
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 8}));
    let refusal = new.sriov().add().error(102);
    refusal.says(&[&format!("pci address {} is already allocated", vf.pci)]);
    assert!(refusal.details.contains(first.path().to_str().unwrap()), "{refusal:?}");
    is_as_before(&machine, &held);
    go.del();
    new.add();
    new.del();
    drop((first, second));
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_add_restores_and_takes_over_the_vf_of_a_dead_pod() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth0", 6), machine.node.pod("a"), machine.node.pod("b"));
    let go = GoPod::attach(&machine, &vf, &first, &everything());
    first.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 6).link.is_empty());
    let new = Chain::new(&machine, &vf, &second, json!({}));
    new.add();
    assert_eq!(machine.vf_info(&vf)["vlan_list"], json!([{}]), "the former pod's VLAN is gone");
    assert!(!go.sriov_file().exists() && !go.allocation().exists());
    new.del();
    drop(second);
    is_as_before(&machine, &before);
}

#[test]
fn upgrade_an_orphaned_allocation_is_removed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let go = GoPod::new(&machine, &vf, &pod);
    // A path that refers to the host's namespace does not belong to a pod.
    for dead in ["/nonexistent/netns", "", "/proc/1/ns/net"] {
        write(go.allocation(), dead);
        let new = Chain::new(&machine, &vf, &pod, json!({}));
        new.add();
        assert!(!go.allocation().exists(), "{dead:?}");
        new.del();
    }
    // An allocation that refers to a running pod, but is older than the boot.
    write(go.allocation(), pod.path().to_str().unwrap());
    age(&machine, go.allocation());
    let new = Chain::new(&machine, &vf, &pod, json!({}));
    new.add();
    new.del();
}

#[test]
fn upgrade_del_succeeds_after_the_vf_was_removed() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 0), machine.node.pod("a"));
    let go = GoPod::attach(&machine, &vf, &pod, &json!({"vlan": 6}));
    fs::write("/sys/class/net/eth1/device/sriov_numvfs", "0").unwrap();
    go.del();
    go.has_no_files();
}
