//! `sriov`: names that a pod gives its VF, and names that are taken where a VF goes.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use serde_json::{Value, json};
use testkit::{Call, Observe, TestPod, wait_until};

use silkrail_tests::machine::{LabMachine, LabVf};

fn call(machine: &LabMachine, vf: &LabVf, pod: &TestPod) -> Call {
    machine.plugin("sriov", &json!({"deviceID": vf.pci, "ipam": {}})).pod(pod)
}

/// Each a list of what a pod does to the link `net1`, the VF that is called `home` on the node; `eth1` and `other` are
/// names that links of the node have.
fn tricks(home: &str) -> Vec<Vec<String>> {
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
        altname("net1", home),
        altname("net1", "poison"),
        renamed("eth1", &[]),
        renamed("other", &["eth1"]),
        renamed("eth1", &[home, "other", "poison"]),
        renamed(home, &["net1", "eth1"]),
        renamed("a\u{2003}b", &["dev%d"]),
        renamed("a\u{1b}[2J", &["b\u{1b}[2J", "\u{202e}c"]),
        many,
    ]
}

/// Has the pod do it.
fn play(pod: &TestPod, trick: &[String]) {
    pod.run("sh", &["-c", &format!("ip -batch - <<'EOF'\n{}\nEOF", trick.join("\n"))]);
}

/// A machine with a link that has the altname `other`.
fn machine_with_an_altname() -> LabMachine {
    let machine = LabMachine::exclusive();
    machine.node.run_ip("link property add dev eth0 altname other");
    machine
}

fn without_the_altname(machine: &LabMachine) {
    machine.node.run_ip("link property del dev eth0 altname other");
}

#[test]
fn no_name_that_a_pod_gives_its_vf_keeps_it_or_comes_home_with_it() {
    let machine = machine_with_an_altname();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    for trick in tricks(&vf.link) {
        let pod = machine.node.pod("a");
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        play(&pod, &trick);
        call.del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    without_the_altname(&machine);
}

#[test]
fn no_name_that_a_dead_pod_gave_its_vf_stays_on_it() {
    let machine = machine_with_an_altname();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    for trick in tricks(&vf.link) {
        let pod = machine.node.pod("a");
        let call = call(&machine, &vf, &pod);
        call.add().ok();
        play(&pod, &trick);
        pod.end();
        wait_until("the VF is home", || !machine.vf("eth0", 1).link.is_empty());
        call.del().done();
        machine.node.snapshot().assert_is(&before);
    }
    without_the_altname(&machine);
}

#[test]
fn names_of_any_bytes_are_names() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 2);
    for dies in [false, true] {
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
        if dies {
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
fn a_name_that_a_pod_without_a_del_left_on_a_vf_keeps_nobody_from_getting_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 3);
    let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
    call(&machine, &vf, &first).container("first").add().ok();
    first.run_ip("link property add dev net1 altname cluster0");
    first.end();
    wait_until("the VF is home", || !machine.vf("eth0", 3).link.is_empty());
    second.run_ip("link add cluster0 type dummy");
    let next = call(&machine, &vf, &second).container("next");
    next.add().ok();
    assert_eq!(second.link("net1").unwrap()["altnames"], Value::Null);
    next.del().done();
    drop(second);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn an_altname_of_the_nodes_that_is_taken_in_the_pod_stays_at_home() {
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
fn a_vf_that_lost_its_name_at_home_can_be_given_to_a_pod() {
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
    assert!(now.starts_with("dev"), "it has a name that can be written: {now}");
    rename(now.as_bytes(), vf.link.as_bytes());
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn an_altname_in_the_pod_that_is_the_new_links_name_is_refused_by_name() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 6), machine.node.pod("a"));
    pod.run_ip("link add cluster0 type dummy");
    pod.run_ip("link property add dev cluster0 altname net1");
    let before = machine.node.snapshot();
    call(&machine, &vf, &pod).add().error(102).says(&["net1", "already exists", "altname of cluster0"]);
    machine.node.snapshot().assert_is(&before);
}
