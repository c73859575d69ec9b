//! `silkrail gc` for the masters of `ifacer` that no pod uses.

use std::fs;

use serde_json::{Value, json};
use testkit::{Observe, TestPod};

use silkrail_tests::{
    cli::silkrail,
    machine::LabMachine,
    master_chain::{MasterChain, VLAN},
};

/// Runs `silkrail gc`, and returns the findings about masters as `state object`, with their evidence.
fn masters(machine: &LabMachine, args: &str) -> Vec<(String, String)> {
    let state = machine.node.state_dir();
    let found = silkrail(&format!("gc --json --state-dir {} {args}", state.display())).ended(0).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let masters = found.as_array().unwrap().iter().filter(|finding| finding["what"] == "master");
    let line = |finding: &Value| {
        (format!("{} {}", text(&finding["state"]), text(&finding["object"])), text(&finding["evidence"]))
    };
    masters.map(line).collect()
}

#[track_caller]
fn assert_master(machine: &LabMachine, args: &str, state: &str, evidence: &str) {
    let mut found = masters(machine, args);
    // The record of the VLAN's parent has the same users.
    found.retain(|(finding, _)| !finding.ends_with(" eth0"));
    let [(is, why)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*is, format!("{state} {VLAN}"), "{why}");
    assert!(why.contains(evidence), "{why}");
}

/// The number of masters that `silkrail gc` has reverted.
fn recorded(machine: &LabMachine) -> u64 {
    let text = fs::read(machine.node.state_dir().join("gc.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["reverted"]["master"].as_u64().unwrap()
}

/// Deletes a VLAN's last pod while the VLAN has an address, so that ifacer keeps it.
fn kept(machine: &LabMachine, pod: &TestPod) {
    let chain = MasterChain::on_vlan(machine, pod, "a");
    chain.add();
    machine.node.run_ip(&format!("address add 10.99.0.1/24 dev {VLAN}"));
    chain.del();
}

fn end_use(machine: &LabMachine) {
    machine.node.run_ip(&format!("address delete 10.99.0.1/24 dev {VLAN}"));
}

#[test]
fn a_master_that_was_kept_after_its_last_pod_is_deleted_once_nothing_uses_it() {
    let machine = LabMachine::shared();
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    kept(&machine, &pod);
    for args in ["", "--yes"] {
        assert_master(&machine, args, "kept", "it has the address 10.99.0.1/24");
    }
    end_use(&machine);
    assert_master(&machine, "", "stale", "no pod uses it");
    assert!(machine.node.link(VLAN).is_some(), "that was a dry run");
    assert_master(&machine, "--yes", "reverted", "no pod uses it");
    assert_eq!((machine.node.link(VLAN), recorded(&machine)), (None, 1));
    assert_eq!(masters(&machine, "--yes"), []);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_master_whose_users_have_no_journal_is_deleted_after_the_last_of_their_pods() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    MasterChain::on_vlan(&machine, &one, "a").add();
    MasterChain::on_vlan(&machine, &two, "b").add();
    fs::remove_dir_all(machine.node.state_dir().join("attachments")).unwrap();
    one.end();
    assert_master(&machine, "--yes", "kept", "no journal, but the link net1");
    assert!(two.link("net1").is_some(), "the VLAN of the running pod was deleted");
    two.end();
    assert_master(&machine, "--yes", "reverted", "the pods that use it have no journal");
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_master_with_a_journal_is_not_listed() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    chain.add();
    assert_eq!(masters(&machine, "--yes"), []);
    assert!(pod.link("net1").is_some());
    chain.del();
}

#[test]
fn a_link_that_is_not_the_masters_stays_and_the_record_ends() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    kept(&machine, &pod);
    machine.node.run_ip(&format!("link delete {VLAN}"));
    machine.node.run_ip(&format!("link add name {VLAN} type bridge"));
    assert_master(&machine, "--yes", "reverted", "no pod uses it");
    assert!(machine.node.link(VLAN).is_some(), "it is not the link that ifacer created");
    machine.node.run_ip(&format!("link delete {VLAN}"));
    assert!(!machine.node.state_dir().join("masters").join(VLAN).exists());
}

#[test]
fn a_bond_is_ended_after_the_vlan_above_it_in_one_run() {
    let machine = LabMachine::shared();
    for name in ["left", "right"] {
        machine.node.run_ip(&format!("link add {name} type veth peer name {name}far"));
        // A link that has never been up has another qdisc.
        machine.node.run_ip(&format!("link set {name} up"));
        machine.node.run_ip(&format!("link set {name} down"));
    }
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let conf = json!({"interfaces": ["left", "right"], "vlanID": 7, "bond": {"name": "rbond", "mode": 1}});
    MasterChain::new(&machine, &pod, "a", &conf, "rbond.7").add();
    fs::remove_file(machine.node.state_dir().join("attachments/a@net1.ifacer.journal")).unwrap();
    pod.end();
    let reverted: Vec<_> = masters(&machine, "--yes").into_iter().map(|(finding, _)| finding).collect();
    assert_eq!(reverted, ["reverted rbond.7", "reverted rbond"]);
    let after = machine.node.snapshot();
    for name in ["left", "right"] {
        machine.node.run_ip(&format!("link delete {name}"));
    }
    after.assert_is(&before);
}

/// The links of a namespace that a pod created itself have the indexes that it chooses.
#[test]
fn a_link_on_another_namespaces_link_with_the_same_index_does_not_keep_a_master() {
    let machine = LabMachine::shared();
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    let (outer, inner) = (machine.node.pod("outer"), machine.node.pod("inner"));
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    chain.add();
    let index = machine.node.link(VLAN).unwrap()["ifindex"].clone();
    outer.run_ip(&format!("link add name like index {index} type dummy"));
    let within = inner.path().display();
    outer.run_ip(&format!("link add link like name child netns {within} type macvlan"));
    let child = inner.link("child").unwrap();
    assert_eq!(child["link_index"], index, "{child}");
    chain.del();
    assert!(machine.node.link(VLAN).is_none(), "the link of the other pods kept it");
    drop((pod, outer, inner));
    machine.node.snapshot().assert_is(&before);
}
