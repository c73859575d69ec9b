//! `sriov`: names that a pod gives its VF, and names that are already in use in the target namespace.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod, wait_until};

use silkrail_tests::machine::{LabMachine, LabVf};

fn call(machine: &LabMachine, vf: &LabVf, pod: &TestPod) -> Call {
    machine.plugin("sriov", &json!({"deviceID": vf.pci, "ipam": {}})).pod(pod)
}

/// Returns lists of `ip` commands that a pod applies to its link `net1`. The VF has the name `host_name` on the host; `eth1`
/// and `other` are names of links on the host.
fn renamings(host_name: &str) -> Vec<Vec<String>> {
    let name = |name: &str| vec!["link set net1 down".to_owned(), format!("link set net1 name {name}")];
    let altname = |link: &str, altname: &str| vec![format!("link property add dev {link} altname {altname}")];
    let renamed = |to: &str, altnames: &[&str]| {
        let altnames = altnames.iter().flat_map(|it| altname(to, it));
        name(to).into_iter().chain(altnames).collect()
    };
    let many = (0..300).flat_map(|n| altname("net1", &format!("{n:0>127}"))).collect();
    vec![
        altname("net1", "eth1"),
        altname("net1", "other"),
        altname("net1", host_name),
        altname("net1", "poison"),
        renamed("eth1", &[]),
        renamed("other", &["eth1"]),
        renamed("eth1", &[host_name, "other", "poison"]),
        renamed(host_name, &["net1", "eth1"]),
        renamed("a\u{2003}b", &["dev%d"]),
        renamed("a\u{1b}[2J", &["b\u{1b}[2J", "\u{202e}c"]),
        many,
    ]
}

/// Runs the commands in the pod.
fn run_ip_batch(pod: &TestPod, commands: &[String]) {
    pod.run("sh", &["-c", &format!("ip -batch - <<'EOF'\n{}\nEOF", commands.join("\n"))]);
}

/// A machine with a link that has the altname `other`.
fn machine_with_an_altname() -> LabMachine {
    let machine = LabMachine::exclusive();
    machine.node.run_ip("link property add dev eth0 altname other");
    machine
}

fn remove_the_altname(machine: &LabMachine) {
    machine.node.run_ip("link property del dev eth0 altname other");
}

#[test]
fn names_given_to_a_vf_by_a_pod_neither_prevent_its_return_nor_remain() {
    let machine = machine_with_an_altname();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    for commands in renamings(&vf.link) {
        let pod = machine.node.pod("a");
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        run_ip_batch(&pod, &commands);
        call.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    remove_the_altname(&machine);
}

#[test]
fn names_given_to_a_vf_by_a_dead_pod_are_removed() {
    let machine = machine_with_an_altname();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    for commands in renamings(&vf.link) {
        let pod = machine.node.pod("a");
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        run_ip_batch(&pod, &commands);
        pod.end();
        wait_until("the VF is on the host", || !machine.vf("eth0", 1).link.is_empty());
        call.del().done();
        machine.node.snapshot().assert_is(&before);
    }
    remove_the_altname(&machine);
}

#[test]
fn names_of_arbitrary_bytes_are_accepted() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 2);
    for ends_first in [false, true] {
        let pod = machine.node.pod("a");
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        let ip =
            |args: &[&[u8]]| pod.run("ip", &args.iter().map(|it| OsStr::from_bytes(it)).collect::<Vec<_>>());
        ip(&[b"link", b"property", b"add", b"dev", b"net1", b"altname", b"\xff\xfe"]);
        ip(&[b"link", b"add", b"\xfe", b"type", b"dummy"]);
        ip(&[b"link", b"set", b"net1", b"alias", b"\xff"]);
        ip(&[b"link", b"set", b"net1", b"down"]);
        ip(&[b"link", b"set", b"net1", b"name", b"\xff\xff"]);
        if ends_first {
            pod.end();
        } else {
            call.del().done();
            drop(pod);
        }
        call.del().done();
        assert_eq!(machine.vf("eth0", 2).link, vf.link);
        machine.node.run("ip", &["link", "set", vf.link.as_str(), "alias", ""]);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn an_altname_left_on_a_vf_without_a_del_does_not_fail_the_next_add() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 3);
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    call(&machine, &vf, &first).container("first").add().ok();
    first.run_ip("link property add dev net1 altname cluster0");
    first.end();
    wait_until("the VF is on the host", || !machine.vf("eth0", 3).link.is_empty());
    second.run_ip("link add cluster0 type dummy");
    let next = call(&machine, &vf, &second).container("next");
    next.add().ok();
    assert_eq!(second.link("net1").unwrap()["altnames"], Value::Null);
    next.del().done();
    drop(second);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn an_altname_in_use_in_the_pod_is_restored_on_the_host() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 4);
    for altname in ["cluster0", "rail-of-the-node"] {
        machine.node.run_ip(&format!("link property add dev {} altname {altname}", vf.link));
    }
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    pod.run_ip("link add cluster0 type dummy");
    let call = call(&machine, &vf, &pod);
    call.add().ok();
    assert_eq!(pod.link("net1").unwrap()["parentdev"], vf.pci);
    call.del().done();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
    for altname in ["cluster0", "rail-of-the-node"] {
        machine.node.run_ip(&format!("link property del dev {} altname {altname}", vf.link));
    }
}

#[test]
fn a_vf_with_a_name_that_is_not_utf8_can_be_attached() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let (vf, pod) = (machine.vf("eth0", 5), machine.node.pod("a"));
    let rename = |from: &[u8], to: &[u8]| {
        let args: [&[u8]; 5] = [b"link", b"set", from, b"name", to];
        machine.node.run("ip", &args.map(OsStr::from_bytes));
    };
    rename(vf.link.as_bytes(), b"\xff");
    let call = call(&machine, &vf, &pod);
    call.add().ok();
    call.del().done();
    let now = machine.vf("eth0", 5).link;
    assert!(now.starts_with("dev"), "the name is valid UTF-8: {now}");
    rename(now.as_bytes(), vf.link.as_bytes());
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn an_altname_in_the_pod_equal_to_the_interface_name_is_refused() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    pod.run_ip("link add cluster0 type dummy");
    pod.run_ip("link property add dev cluster0 altname net1");
    let before = machine.node.snapshot();
    call(&machine, &vf, &pod).add().error(102).says(&["net1", "already exists", "altname of cluster0"]);
    machine.node.snapshot().assert_is(&before);
}

/// A link has its name on the host as an altname after a rename by udev, which keeps the former name so.
#[test]
fn case_096_the_altnames_of_a_vf_are_removed_by_add_and_back_after_del() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 0);
    let former = vf.link.clone();
    machine.node.run_ip(&format!("link set {former} down"));
    machine.node.run_ip(&format!("link set {former} name renamed0"));
    machine.node.run_ip(&format!("link property add dev renamed0 altname {former}"));
    let before = machine.node.snapshot();
    // A link of the pod may have the name or the altname of the VF on the host.
    for name_in_pod in [None, Some(&*former), Some("renamed0")] {
        let pod = machine.node.pod("a");
        if let Some(name) = name_in_pod {
            pod.run_ip(&format!("link add {name} type dummy"));
        }
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        assert_eq!(pod.link("net1").unwrap()["altnames"], Value::Null);
        call.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    machine.node.run_ip(&format!("link property del dev renamed0 altname {former}"));
    machine.node.run_ip(&format!("link set renamed0 name {former}"));
}
