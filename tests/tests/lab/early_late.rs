//! Early, late and missing DEL: before the kernel has returned the devices, after the VF has another owner, and never.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use testkit::{Observe, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf, pool, rdma_devices, set_vfs},
    rxe::RxeProgram,
};

use crate::unbound_vf::UnboundVf;

/// All settings that a pod or its configuration may change on a VF.
fn everything() -> Value {
    json!({
        "vlan": 77, "vlanQoS": 3, "mac": "c2:11:22:33:44:55", "mtu": 1400, "trust": "on", "spoofchk": "off",
        "ipam": {"type": "silkrail-ipam", "pools": [one_address()]}
    })
}

/// A pool of one address: an attachment that does not release it fails the next one.
fn one_address() -> Value {
    let mut pool = pool();
    pool["ips"] = json!(["172.81.0.100"]);
    pool
}

/// Starts a process that keeps a pod's namespace alive for as long as the result lives.
fn hold(machine: &LabMachine, pod: &TestPod) -> RxeProgram {
    let program = RxeProgram::spawn(pod.command("sleep").arg("600"));
    let inode = |path: String| machine.node.run("stat", &["-Lc", "%i", &path]);
    let namespace = inode(pod.path().display().to_string());
    wait_until("the process is in the namespace", || {
        inode(format!("/proc/{}/ns/net", program.pid())) == namespace
    });
    program
}

fn vlan(machine: &LabMachine, vf: &LabVf) -> Value {
    machine.vf_info(vf)["vlan_list"][0]["vlan"].clone()
}

#[test]
fn invariant_2_del_returns_the_devices_from_a_namespace_whose_path_is_gone_while_a_process_is_in_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 5}));
    chain.add();
    let running = hold(&machine, &pod);
    pod.end();
    // Until then, no other pod can have them.
    let next = machine.node.pod("next");
    let other = Chain::new(&machine, &vf, &next, json!({})).container("other");
    let refusal = other.sriov().add().error(102);
    refusal.says(&["already allocated to pod-eth0-0@net1"]);
    assert!(refusal.details.contains("/ns/net holds it"), "{refusal:?}");
    drop(next);
    chain.del();
    machine.node.snapshot().assert_is(&before);
    drop(running);
}

#[test]
fn invariant_2_a_chain_is_deleted_in_any_order_and_more_than_once() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, everything());
    for _ in 0..2 {
        chain.add();
        chain.sriov().del().done();
        chain.sriov().del().done();
        chain.rdma().del().done();
        chain.del();
    }
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_3_a_late_del_of_the_chain_changes_neither_vf_nor_address_nor_rdma_device() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth0", 2), machine.node.pod("a"), machine.node.pod("b"));
    let old = Chain::new(&machine, &vf, &first, everything()).container("old");
    old.add();
    let journals = journals(&machine);
    first.end();
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 88, "ipam": everything()["ipam"]}));
    let new = new.container("new");
    let result = new.add();
    let held = machine.node.snapshot();
    // A DEL that waits in vain for a device fails.
    let del = || {
        old.del();
        machine.node.snapshot().assert_is(&held);
    };
    del();
    // Restores the journals that the new ADD removed.
    for (path, bytes) in journals {
        fs::write(path, bytes).unwrap();
    }
    del();
    new.check(&result);
    assert_eq!(vlan(&machine, &vf), 88);
    new.del();
    drop(second);
    machine.node.snapshot().assert_is(&before);
}

fn journals(machine: &LabMachine) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = fs::read_dir(machine.node.state_dir().join("attachments")).unwrap();
    dir.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn invariant_1_a_vf_without_a_del_is_restored_before_the_next_pod_gets_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth1", 2), machine.node.pod("a"), machine.node.pod("b"));
    let (link, info) = (machine.node.link(&vf.link).unwrap(), machine.vf_info(&vf));
    let old = Chain::new(&machine, &vf, &first, everything()).container("old");
    old.add();
    first.end();
    wait_until("the VF is on the host", || !machine.vf("eth1", 2).link.is_empty());
    // A network manager of the node renames and configures a new link.
    machine.node.run_ip(&format!("link set {} name other0", machine.vf("eth1", 2).link));
    machine.node.run_ip("link set other0 mtu 4444 up");
    machine.node.run_ip("address add 10.99.0.1/24 dev other0");

    let new = Chain::new(&machine, &vf, &second, json!({})).container("new");
    new.add();
    let inside = second.link("net1").unwrap();
    assert_eq!((&inside["address"], &inside["mtu"]), (&link["address"], &link["mtu"]));
    assert_eq!(
        second.addresses("net1"),
        ["172.81.0.100/16"],
        "no address of the former pod or of the host remains"
    );
    assert_eq!(machine.vf_info(&vf), info);
    new.del();
    drop(second);
    old.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_1_an_address_added_on_the_host_is_removed_from_a_returned_vf() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    pod.end();
    wait_until("the VF is on the host", || !machine.vf("eth1", 0).link.is_empty());
    // The name is restored; only the address differs from the former state.
    machine.node.run_ip(&format!("link set {} name {}", machine.vf("eth1", 0).link, vf.link));
    machine.node.run_ip(&format!("address add 10.99.0.1/24 dev {}", vf.link));
    chain.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_a_vf_recreated_during_an_attachment_is_available_after_del() {
    let machine = LabMachine::exclusive();
    let (vf, first, second) = (machine.vf("eth1", 3), machine.node.pod("a"), machine.node.pod("b"));
    let old = Chain::new(&machine, &vf, &first, everything()).container("old");
    old.add();
    fs::write("/sys/class/net/eth1/device/sriov_numvfs", "0").unwrap();
    set_vfs(7, &["eth1"]);
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 88})).container("new");
    // The claim of the running pod is still valid, although its VF was removed.
    new.sriov().add().error(102).says(&["is already allocated"]);
    old.del();
    assert!(machine.node.snapshot().state().is_empty());
    assert_eq!(machine.vf("eth1", 3).link, vf.link);
    let result = new.add();
    new.check(&result);
    new.del();
    assert!(machine.node.snapshot().state().is_empty());
}

#[test]
fn pods_are_attached_and_detached_while_the_pf_is_down() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 3), machine.node.pod("a"));
    machine.node.run_ip("link set eth0 down");
    let before = machine.node.snapshot();
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 9, "mtu": 1400, "trust": "on"}));
    let result = chain.add();
    assert_eq!(vlan(&machine, &vf), 9);
    chain.check(&result);
    chain.del();
    machine.node.snapshot().assert_is(&before);
    // The PF may also go down during an attachment.
    machine.node.run_ip("link set eth0 up");
    chain.add();
    machine.node.run_ip("link set eth0 down");
    chain.del();
    drop(pod);
    assert_eq!((vlan(&machine, &vf), machine.vf("eth0", 3).link), (Value::Null, vf.link));
    assert!(machine.node.snapshot().state().is_empty());
    // The card resets the MAC addresses of its VFs when it is set up. The next test creates the VFs again.
    fs::write("/sys/class/net/eth0/device/sriov_numvfs", "0").unwrap();
}

/// The attributes of a VF without its permanent MAC address, which igbvf generates at each bind.
fn vf_attributes(machine: &LabMachine, vf: &LabVf) -> Vec<Value> {
    let link = machine.node.link(&vf.link).unwrap();
    vec![link["address"].clone(), link["mtu"].clone(), link["flags"].clone(), machine.vf_info(vf)]
}

#[test]
fn invariant_2_del_succeeds_after_the_driver_was_rebound() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let before = vf_attributes(&machine, &vf);
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 10, "trust": "on", "mtu": 1400}));
    for _ in 0..2 {
        chain.add();
        UnboundVf::from(&machine, &vf).bind();
        assert_eq!(pod.link("net1"), None);
        chain.del();
        assert_eq!(vf_attributes(&machine, &vf), before);
        assert!(machine.node.snapshot().state().is_empty());
    }
    assert_eq!(machine.vf("eth0", 4).rdma, vf.rdma);
}

#[test]
fn invariant_2_del_succeeds_for_a_vf_without_a_driver_and_add_reports_the_remedy() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 10}));
    chain.add();
    let unbound = UnboundVf::from(&machine, &vf);
    let answer = chain.rdma().del();
    assert!(!answer.stderr.contains("is gone"), "DEL waited for the RDMA device: {}", answer.stderr);
    answer.done();
    chain.sriov().del().done();
    assert_eq!(vlan(&machine, &vf), Value::Null);
    assert!(machine.node.snapshot().state().is_empty());
    let refusal = chain.sriov().add().error(11);
    refusal.says(&[&vf.pci, "no driver is bound"]);
    assert!(refusal.details.contains("drivers_probe"), "{refusal:?}");
    assert!(machine.node.snapshot().state().is_empty());
    unbound.bind();
    chain.add();
    chain.del();
}

#[test]
fn invariant_1_an_rdma_device_renamed_by_the_pod_returns_under_its_former_name() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 4);
    for ends in [false, true] {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        let result = chain.add();
        pod.run("rdma", &["dev", "set", &vf.rdma, "name", "other"]);
        assert_eq!(rdma_devices(&pod), ["other"]);
        chain.check(&result);
        let pod = (!ends).then_some(pod);
        chain.del();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_1_an_rdma_device_renamed_to_an_invalid_file_name_returns_under_its_former_name() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 4);
    for (name, ends) in
        [r"\377", "a/b", "..", ".", "a b"].into_iter().flat_map(|name| [(name, false), (name, true)])
    {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        chain.add();
        let rename = format!("rdma dev set {} name \"$(printf '{name}')\"", vf.rdma);
        pod.run("sh", &["-c", &rename]);
        let pod = (!ends).then_some(pod);
        chain.del();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    // Without a DEL, the next pod gets the device under this name.
    let pod = machine.node.pod("a");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    pod.run("rdma", &["dev", "set", &vf.rdma, "name", "a/b"]);
    drop(pod);
    let pod = machine.node.pod("b");
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    assert_eq!(rdma_devices(&pod), std::slice::from_ref(&vf.rdma));
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_del_succeeds_after_the_rdma_device_was_registered_under_another_name() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 5), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    UnboundVf::from(&machine, &vf).bind();
    // The kernel or udev may give the new device another name.
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "name", "roce7"]);
    chain.del();
    assert_eq!(
        machine.vf("eth1", 5).rdma,
        "roce7",
        "the plugin does not rename a device that it did not move"
    );
    assert!(machine.node.snapshot().state().is_empty());
    let result = chain.add();
    assert_eq!(rdma_devices(&pod), ["roce7"]);
    chain.check(&result);
    chain.del();
    machine.node.run("rdma", &["dev", "set", "roce7", "name", &vf.rdma]);
}

#[test]
fn invariant_2_del_succeeds_when_the_rdma_device_is_already_on_the_host() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    // `rdma` accepts only names of namespaces.
    machine.node.run_ip("netns attach host 1");
    pod.run("rdma", &["dev", "set", &vf.rdma, "netns", "host"]);
    machine.node.run_ip("netns delete host");
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_vf_whose_link_is_in_another_namespace_is_refused_after_a_timeout() {
    let machine = LabMachine::exclusive();
    let (vf, pod, other) = (machine.vf("eth0", 6), machine.node.pod("a"), machine.node.pod("other"));
    machine.node.run_ip(&format!("link set {} netns {}", vf.link, other.path().display()));
    let before = machine.node.snapshot();
    let refusal = Chain::new(&machine, &vf, &pod, json!({"vlan": 6})).sriov().add().error(11);
    refusal.says(&[&vf.pci, "does not have a interface name", "igbvf"]);
    assert!(refusal.details.contains("another network namespace"), "{refusal:?}");
    machine.node.snapshot().assert_is(&before);
    other.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 6).link.is_empty());
}

#[test]
fn case_106_a_vf_with_a_user_space_driver_gets_settings_and_addresses_and_del_does_not_wait() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let unbound = UnboundVf::from(&machine, &vf);
    unbound.bind_to("uio_pci_generic");
    let before = machine.node.snapshot();
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 12}));
    let result = chain.sriov().add().ok();
    assert_eq!(result["ips"][0]["address"], "172.81.0.100/16");
    assert_eq!((vlan(&machine, &vf), pod.link("net1")), (json!(12), None));
    chain.sriov().del().done();
    machine.node.snapshot().assert_is(&before);
    unbound.bind();
}
