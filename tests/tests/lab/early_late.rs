//! Early and late: DEL before the kernel is ready, DEL after the VF is another's, DEL never.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use testkit::{Observe, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf, pool, rdma_devices},
};

use crate::unbound_vf::UnboundVf;

/// What a pod may have changed on its VF, and what its configuration did.
fn everything() -> Value {
    json!({
        "vlan": 77, "vlanQoS": 3, "mac": "c2:11:22:33:44:55", "mtu": 1400, "trust": "on", "spoofchk": "off",
        "ipam": {"type": "silkrail-ipam", "pools": [one_address()]}
    })
}

/// What one attachment keeps, the next cannot have.
fn one_address() -> Value {
    let mut pool = pool();
    pool["ips"] = json!(["172.81.0.100"]);
    pool
}

/// Has a process keep a namespace alive until it is killed, or, should a test have failed, for a minute.
fn hold(machine: &LabMachine, pod: &TestPod) -> std::process::Child {
    let child = pod.command("sleep").arg("60").spawn().unwrap();
    let of = |path: String| machine.node.run("stat", &["-Lc", "%i", &path]);
    let inside = of(pod.path().display().to_string());
    wait_until("the process is inside", || of(format!("/proc/{}/ns/net", child.id())) == inside);
    child
}

fn vlan(machine: &LabMachine, vf: &LabVf) -> Value {
    machine.vf_info(vf)["vlan_list"][0]["vlan"].clone()
}

#[test]
fn invariant_2_del_waits_until_the_kernel_has_returned_the_device() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 5}));
    chain.add();
    // The path is gone; a process that is ending keeps the namespace, and with it the VF.
    let mut ending = hold(&machine, &pod);
    pod.end();
    thread::scope(|scope| {
        let del = scope.spawn(|| chain.del());
        thread::sleep(Duration::from_secs(2));
        assert!(!del.is_finished(), "it did not wait");
        ending.kill().and_then(|()| ending.wait()).unwrap();
        del.join().unwrap();
    });
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_a_chain_is_taken_back_in_any_order_and_more_than_once() {
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
fn invariant_3_a_late_del_of_the_chain_touches_neither_vf_nor_address_nor_rdma_device() {
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
    let del = || {
        let began = Instant::now();
        old.del();
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "there is nothing to wait for: {:?}",
            began.elapsed()
        );
        machine.node.snapshot().assert_is(&held);
    };
    del();
    // As if the new ADD had not seen them.
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
fn invariant_1_a_vf_whose_del_never_ran_is_as_before_when_the_next_pod_gets_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, first, second) = (machine.vf("eth1", 2), machine.node.pod("a"), machine.node.pod("b"));
    let (link, info) = (machine.node.link(&vf.link).unwrap(), machine.vf_info(&vf));
    let old = Chain::new(&machine, &vf, &first, everything()).container("old");
    old.add();
    first.end();
    wait_until("the VF is home", || !machine.vf("eth1", 2).link.is_empty());
    // A network manager on the node configures a new link.
    machine.node.run_ip(&format!("link set {} name strange0", machine.vf("eth1", 2).link));
    machine.node.run_ip("link set strange0 mtu 4444 up");
    machine.node.run_ip("address add 10.99.0.1/24 dev strange0");

    let new = Chain::new(&machine, &vf, &second, json!({})).container("new");
    new.add();
    let inside = second.link("net1").unwrap();
    assert_eq!((&inside["address"], &inside["mtu"]), (&link["address"], &link["mtu"]));
    assert_eq!(
        second.addresses("net1"),
        ["172.81.0.100/16"],
        "of the former pod's and the node's there is none"
    );
    assert_eq!(machine.vf_info(&vf), info);
    new.del();
    drop(second);
    old.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_1_a_vf_that_was_given_an_address_at_home_loses_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    pod.end();
    wait_until("the VF is home", || !machine.vf("eth1", 0).link.is_empty());
    // In everything else it is as it was.
    machine.node.run_ip(&format!("link set {} name {}", machine.vf("eth1", 0).link, vf.link));
    machine.node.run_ip(&format!("address add 10.99.0.1/24 dev {}", vf.link));
    chain.del();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_a_vf_that_was_made_anew_under_a_pod_is_given_to_the_next_after_del() {
    let machine = LabMachine::exclusive();
    let (vf, first, second) = (machine.vf("eth1", 3), machine.node.pod("a"), machine.node.pod("b"));
    let old = Chain::new(&machine, &vf, &first, everything()).container("old");
    old.add();
    fs::write("/sys/class/net/eth1/device/sriov_numvfs", "0").unwrap();
    machine.node.run("lab-vfs", &["7", "eth1"]);
    let new = Chain::new(&machine, &vf, &second, json!({"vlan": 88})).container("new");
    // A pod that lives has it, though it has lost it.
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
fn a_pf_that_is_down_keeps_no_pod_from_coming_and_going() {
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
    // It may also go down later.
    machine.node.run_ip("link set eth0 up");
    chain.add();
    machine.node.run_ip("link set eth0 down");
    chain.del();
    drop(pod);
    assert_eq!((vlan(&machine, &vf), machine.vf("eth0", 3).link), (Value::Null, vf.link));
    assert!(machine.node.snapshot().state().is_empty());
    // The card forgets the addresses of VFs when it comes up again: the next test gets new ones.
    fs::write("/sys/class/net/eth0/device/sriov_numvfs", "0").unwrap();
}

/// What a VF is like but for its permanent address, which igbvf generates whenever it is bound.
fn facts(machine: &LabMachine, vf: &LabVf) -> Vec<Value> {
    let link = machine.node.link(&vf.link).unwrap();
    vec![link["address"].clone(), link["mtu"].clone(), link["flags"].clone(), machine.vf_info(vf)]
}

#[test]
fn invariant_2_a_driver_that_was_bound_anew_under_a_pod_is_no_obstacle() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 4), machine.node.pod("a"));
    let before = facts(&machine, &vf);
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 10, "trust": "on", "mtu": 1400}));
    for _ in 0..2 {
        chain.add();
        UnboundVf::from(&machine, &vf).bind();
        assert_eq!(pod.link("net1"), None);
        chain.del();
        assert_eq!(facts(&machine, &vf), before);
        assert!(machine.node.snapshot().state().is_empty());
    }
    assert_eq!(machine.vf("eth0", 4).rdma, vf.rdma);
}

#[test]
fn invariant_2_a_vf_without_a_driver_is_no_obstacle_to_del_and_refused_by_add_with_the_remedy() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 10}));
    chain.add();
    let unbound = UnboundVf::from(&machine, &vf);
    let began = Instant::now();
    chain.del();
    assert!(began.elapsed() < Duration::from_secs(5), "there is nothing to wait for: {:?}", began.elapsed());
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
fn invariant_1_an_rdma_device_that_the_pod_renamed_comes_home_under_its_name() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 4);
    for ends in [false, true] {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        let result = chain.add();
        pod.run("rdma", &["dev", "set", &vf.rdma, "name", "ours"]);
        assert_eq!(rdma_devices(&pod), ["ours"]);
        chain.check(&result);
        let pod = (!ends).then_some(pod);
        let began = Instant::now();
        chain.del();
        assert!(began.elapsed() < Duration::from_secs(5), "it was not found: {:?}", began.elapsed());
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn invariant_1_an_rdma_device_to_which_the_pod_gave_no_name_of_a_file_comes_home_under_its_name() {
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
        let began = Instant::now();
        chain.del();
        assert!(began.elapsed() < Duration::from_secs(5), "{name} was not found: {:?}", began.elapsed());
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    // The next pod finds it like this, if there was no DEL.
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
fn invariant_2_an_rdma_device_that_was_registered_anew_under_another_name_is_no_obstacle() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth1", 5), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    UnboundVf::from(&machine, &vf).bind();
    // A new device may get another name, by the kernel or by udev.
    machine.node.run("rdma", &["dev", "set", &vf.rdma, "name", "roce7"]);
    let began = Instant::now();
    chain.del();
    assert!(began.elapsed() < Duration::from_secs(5), "there is nothing to wait for: {:?}", began.elapsed());
    assert_eq!(machine.vf("eth1", 5).rdma, "roce7", "it is another device, whose name is not ours to give");
    assert!(machine.node.snapshot().state().is_empty());
    let result = chain.add();
    assert_eq!(rdma_devices(&pod), ["roce7"]);
    chain.check(&result);
    chain.del();
    machine.node.run("rdma", &["dev", "set", "roce7", "name", &vf.rdma]);
}

#[test]
fn invariant_2_an_rdma_device_that_is_home_already_is_no_obstacle() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth1", 1), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    chain.add();
    // `rdma` takes names of namespaces only.
    machine.node.run_ip("netns attach home 1");
    pod.run("rdma", &["dev", "set", &vf.rdma, "netns", "home"]);
    machine.node.run_ip("netns delete home");
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_vf_whose_link_is_in_a_namespace_of_somebody_else_is_refused_after_a_while() {
    let machine = LabMachine::exclusive();
    let (vf, pod, other) = (machine.vf("eth0", 6), machine.node.pod("a"), machine.node.pod("other"));
    machine.node.run_ip(&format!("link set {} netns {}", vf.link, other.path().display()));
    let before = machine.node.snapshot();
    let refusal = Chain::new(&machine, &vf, &pod, json!({"vlan": 6})).sriov().add().error(11);
    refusal.says(&[&vf.pci, "does not have a interface name", "igbvf"]);
    assert!(refusal.details.contains("another network namespace"), "{refusal:?}");
    machine.node.snapshot().assert_is(&before);
    other.end();
    wait_until("the VF is home", || !machine.vf("eth0", 6).link.is_empty());
}

#[test]
fn case_106_a_vf_in_user_space_has_settings_and_addresses_and_is_taken_back_at_once() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let unbound = UnboundVf::from(&machine, &vf);
    unbound.bind_to("uio_pci_generic");
    let before = machine.node.snapshot();
    let chain = Chain::new(&machine, &vf, &pod, json!({"vlan": 12}));
    let result = chain.sriov().add().ok();
    assert_eq!(result["ips"][0]["address"], "172.81.0.100/16");
    assert_eq!((vlan(&machine, &vf), pod.link("net1")), (json!(12), None));
    let began = Instant::now();
    chain.sriov().del().done();
    assert!(began.elapsed() < Duration::from_secs(5), "there is nothing to wait for: {:?}", began.elapsed());
    machine.node.snapshot().assert_is(&before);
    unbound.bind();
}
