//! `ifacer`: a bond, and a VLAN above it.

use serde_json::{Value, json};
use testkit::{Observe, Share, TestPod};

use silkrail_tests::{
    cli::silkrail,
    machine::LabMachine,
    master_chain::{MasterChain, link},
};

/// Two links with jumbo frames: `left` is up, `right` is down.
struct Slaves<'a>(&'a LabMachine);

impl<'a> Slaves<'a> {
    fn new(machine: &'a LabMachine) -> Self {
        for name in ["left", "right"] {
            machine.node.run_ip(&format!("link add {name} mtu 9000 type veth peer name {name}far"));
            machine.node.run_ip(&format!("link set {name}far up"));
        }
        machine.node.run_ip("link set right mtu 8000");
        for name in ["left", "right"] {
            // A link that has never been up has another qdisc.
            machine.node.run_ip(&format!("link set {name} up"));
        }
        machine.node.run_ip("link set right down");
        Self(machine)
    }

    fn chain(&self, pod: &TestPod, container: &str) -> MasterChain {
        self.with(pod, container, &json!({}))
    }

    fn with(&self, pod: &TestPod, container: &str, bond: &Value) -> MasterChain {
        let mut settings = json!({"name": "rbond", "mode": 1, "options": "miimon=100;primary=right"});
        settings.as_object_mut().unwrap().extend(bond.as_object().unwrap().clone());
        let conf = json!({"interfaces": ["left", "right"], "vlanID": 100, "bond": settings});
        MasterChain::new(self.0, pod, container, &conf, "rbond.100")
    }
}

impl Drop for Slaves<'_> {
    fn drop(&mut self) {
        for name in ["left", "right"] {
            let _ = std::process::Command::new("ip").args(["link", "delete", name]).status();
        }
    }
}

#[test]
fn a_bond_with_a_vlan_above_it_is_shared_and_its_slaves_are_restored() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let (first, second) = (slaves.chain(&one, "a"), slaves.chain(&two, "b"));
    let result = first.add();
    let (bond, vlan) = (link(&machine, "rbond"), link(&machine, "rbond.100"));
    let settings = &bond["linkinfo"]["info_data"];
    assert_eq!((&settings["mode"], &settings["miimon"]), (&json!("active-backup"), &json!(100)), "{bond}");
    assert_eq!((&settings["primary"], &bond["mtu"]), (&json!("right"), &json!(8000)), "{bond}");
    assert_eq!((&vlan["link"], &vlan["mtu"]), (&json!("rbond"), &json!(8000)), "{vlan}");
    assert_eq!(
        (&link(&machine, "left")["master"], &link(&machine, "right")["master"]),
        (&json!("rbond"), &json!("rbond"))
    );
    first.check(&result);
    second.add();
    first.del();
    assert_eq!(link(&machine, "rbond")["ifindex"], bond["ifindex"]);
    assert!(two.link("net1").is_some());
    second.del();
    drop((one, two));
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_bond_that_ifacer_did_not_create_stays() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    machine.node.run_ip("link add rbond type bond mode active-backup");
    for name in ["left", "right"] {
        machine.node.run_ip(&format!("link set {name} down"));
        machine.node.run_ip(&format!("link set {name} master rbond"));
    }
    machine.node.run_ip("link set rbond up");
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    let chain = slaves.chain(&pod, "a");
    chain.add();
    chain.del();
    slaves.with(&pod, "b", &json!({"mode": 4})).ifacer().add().error(102).says(&[
        "rbond",
        "a bond of mode 1 with the interfaces left, right",
        "a bond of mode 4",
    ]);
    drop(pod);
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip("link delete rbond");
}

#[test]
fn an_interface_in_use_does_not_become_a_slave() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let (pod, other) = (machine.node.pod("a"), machine.node.pod("b"));
    let call = slaves.chain(&pod, "a").ifacer().clone();
    for (used, free, shown) in [
        ("address add 10.99.0.1/24 dev left", "address delete 10.99.0.1/24 dev left", "10.99.0.1/24"),
        (
            "address add fd00:99::1/64 dev left valid_lft 900 preferred_lft 900",
            "address delete fd00:99::1/64 dev left",
            "fd00:99::1/64",
        ),
        ("link add link right name child type macvlan", "link delete child", "child"),
        ("link add team type bond", "link delete team", ""),
    ] {
        machine.node.run_ip(used);
        if shown.is_empty() {
            machine.node.run_ip("link set right master team");
        }
        call.add().error(102).says(&["cannot become a slave of rbond", shown]);
        call.status().error(50);
        machine.node.run_ip(free);
        machine.node.run_ip("link set right down");
    }
    machine
        .node
        .run_ip(&format!("link add link left name child netns {} type macvlan", other.path().display()));
    call.add().error(102).says(&["left", "child"]);
    drop(other);
    assert!(machine.node.link("rbond").is_none());
}

#[test]
fn an_interface_that_left_the_bond_is_not_added_again_while_it_is_used() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let (first, next) = (slaves.chain(&one, "a"), slaves.chain(&two, "b"));
    first.add();
    machine.node.run_ip("link set right nomaster");
    machine.node.run_ip("address add 10.99.0.1/24 dev right");
    next.ifacer().add().error(102).says(&["right", "cannot become a slave of rbond", "10.99.0.1/24"]);
    next.ifacer().status().error(50).says(&["10.99.0.1/24"]);
    assert!(link(&machine, "right")["master"].is_null());
    machine.node.run_ip("address delete 10.99.0.1/24 dev right");
    next.check(&next.add());
    assert_eq!(link(&machine, "right")["master"], "rbond");
    first.del();
    next.del();
    drop((one, two));
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_deleted_bond_is_created_again_with_the_interfaces_of_the_changed_network() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    machine.node.run_ip("link add spare type veth peer name sparefar");
    machine.node.run_ip("link set spare up");
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let first = slaves.chain(&one, "a");
    first.add();
    machine.node.run_ip("link delete rbond");
    let conf = json!({"interfaces": ["right", "spare"], "vlanID": 100, "bond": {"name": "rbond"}});
    let changed = MasterChain::new(&machine, &two, "b", &conf, "rbond.100");
    changed.check(&changed.add());
    for (name, bond) in [("left", Value::Null), ("right", json!("rbond")), ("spare", json!("rbond"))] {
        assert_eq!(link(&machine, name)["master"], bond, "{name}");
    }
    assert!(link(&machine, "left")["flags"].as_array().unwrap().contains(&json!("UP")), "as before");
    first.del();
    changed.del();
    drop((one, two));
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip("link delete spare");
}

#[test]
fn an_interface_that_returned_with_another_index_becomes_a_slave_again() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let (first, next) = (slaves.chain(&one, "a"), slaves.chain(&two, "b"));
    first.add();
    machine.node.run_ip("link delete right");
    machine.node.run_ip("link add right mtu 8000 type veth peer name rightfar");
    let before = link(&machine, "right");
    next.check(&next.add());
    assert_eq!(link(&machine, "right")["master"], "rbond");
    first.del();
    next.del();
    let after = link(&machine, "right");
    for key in ["address", "mtu", "flags", "master"] {
        assert_eq!(after[key], before[key], "{key}");
    }
}

#[test]
fn refused_settings_are_reported_and_nothing_is_left() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    // The kernel knows which options a mode has.
    let call = slaves.with(&pod, "a", &json!({"mode": 0, "options": "lacp_rate=1"})).ifacer().clone();
    call.add().error(7).says(&["rbond", "lacp_rate=1"]);
    for (bond, shown) in [
        (json!({"mode": 7}), "bond.mode"),
        (json!({"options": "mii=1"}), "bond.options"),
        (json!({"options": "primary=eth0"}), "bond.options"),
        (json!({"name": "a-name-with-more-bytes"}), "bond.name"),
        // With the VLAN ID it would be too long.
        (json!({"name": "a-long-name1"}), "a-long-name1.100"),
    ] {
        slaves.with(&pod, "a", &bond).ifacer().add().error(7).says(&[shown]);
    }
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn two_networks_need_the_same_options() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let chain = slaves.chain(&one, "a");
    chain.add();
    let other = slaves.with(&two, "b", &json!({"options": "miimon=200"}));
    other.ifacer().add().error(102).says(&["miimon=100;primary=right", "miimon=200"]);
    // A network may have the bond as its interface.
    let conf = json!({"interfaces": ["rbond"], "vlanID": 200});
    let above = MasterChain::new(&machine, &two, "b", &conf, "rbond.200");
    above.add();
    chain.del();
    assert!(two.link("net1").is_some() && machine.node.link("rbond").is_some());
    above.del();
    assert!(machine.node.link("rbond").is_none());
}

#[test]
fn invariant_1_a_bond_add_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let before = machine.node.snapshot();
    let gc = || silkrail(&format!("gc --yes --state-dir {}", machine.node.state_dir().display())).ended(0);
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/meta/ifacer"]).steps(&format!("bond {fault}")) {
            let pod = machine.node.pod("a");
            let chain = slaves.chain(&pod, "a");
            let answer = chain.ifacer().clone().fault(&format!("{fault}:{step}")).add();
            if fault == "kill" || answer.status.success() {
                if step % 2 == 0 { chain.del() } else { drop(gc()) }
            }
            drop(pod);
            drop(gc());
            machine.node.snapshot().assert_is(&before);
            if answer.status.success() {
                assert!(step > 4, "only {step} steps were seen");
                break;
            }
        }
    }
}

#[test]
fn a_bond_of_a_killed_add_is_completed_by_the_next_pod() {
    let machine = LabMachine::shared();
    let slaves = Slaves::new(&machine);
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let killed = slaves.chain(&one, "a");
    assert!(killed.ifacer().clone().fault("kill:2").add().was_killed());
    let result = json!({"cniVersion": "1.1.0"});
    killed.ifacer().check_after(&result).error(103).says(&["a@net1", "not completed"]);
    // As if it had been killed before it added the second slave.
    machine.node.run_ip("link set right nomaster");
    let next = slaves.chain(&two, "b");
    next.check(&next.add());
    assert_eq!(link(&machine, "right")["master"], "rbond");
    killed.del();
    assert!(two.link("net1").is_some());
    next.del();
    drop((one, two));
    machine.node.snapshot().assert_is(&before);
}
