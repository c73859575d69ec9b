//! `ifacer`: a VLAN link that pods have as their master, from the first pod to the last.

use std::{fs, thread};

use serde_json::{Value, json};
use testkit::{Observe, Share, TestPod};

use silkrail_tests::{
    cli::silkrail,
    machine::LabMachine,
    master_chain::{MasterChain, VLAN, link, vlan},
};

fn is_up(link: &Value) -> bool {
    link["flags"].as_array().unwrap().iter().any(|flag| flag == "UP")
}

fn gc(machine: &LabMachine) {
    silkrail(&format!("gc --yes --state-dir {}", machine.node.state_dir().display())).ended(0);
}

#[test]
fn a_vlan_is_shared_by_pods_and_deleted_after_the_last() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let pods = ["a", "b", "c"].map(|name| machine.node.pod(name));
    let [first, second, third] = ["a", "b", "c"].map(|name| {
        let pod = &pods[["a", "b", "c"].iter().position(|it| *it == name).unwrap()];
        MasterChain::on_vlan(&machine, pod, name)
    });
    let result = first.add();
    let created = link(&machine, VLAN);
    assert_eq!(created["linkinfo"]["info_kind"], "vlan");
    assert_eq!(created["linkinfo"]["info_data"]["id"], 100);
    assert_eq!((&created["link"], &created["mtu"]), (&json!("eth0"), &link(&machine, "eth0")["mtu"]));
    assert!(is_up(&created), "{created}");
    assert_eq!(pods[0].link("net1").unwrap()["link_index"], created["ifindex"]);
    first.check(&result);
    second.add();
    // A chain without another plugin.
    assert_eq!(third.ifacer().add().ok(), json!({"cniVersion": "1.1.0"}));
    for gone in [&first, &first, &third] {
        gone.del();
        assert_eq!(link(&machine, VLAN)["ifindex"], created["ifindex"]);
        assert!(pods[1].link("net1").is_some());
    }
    second.del();
    second.del();
    drop(pods);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn the_result_of_the_chain_is_passed_on_and_ipvlan_can_follow() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let pod = machine.node.pod("a");
    let conf = json!({"Interfaces": ["eth1"], "VLANID": 4094, "bond": null});
    let chain = MasterChain::before(&machine, "ipvlan", &pod, "a", &conf, "eth1.4094");
    let result = chain.add();
    chain.check(&result);
    chain.del();
    let previous =
        json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eth7"}], "ips": [], "routes": [], "dns": {}});
    let passed = chain.ifacer().with("prevResult", &previous).add().ok();
    assert_eq!(passed["interfaces"][0]["name"], "eth7");
    chain.ifacer().del().done();
    let nothing = json!({"interfaces": ["eth1"]});
    let call = MasterChain::new(&machine, &pod, "a", &nothing, "eth1");
    call.check(&call.add());
    call.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_link_that_ifacer_did_not_create_stays() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    machine.node.run_ip(&format!("link add link eth0 name {VLAN} type vlan id 100"));
    // A link that has never been up has another qdisc.
    machine.node.run_ip(&format!("link set {VLAN} up"));
    machine.node.run_ip(&format!("link set {VLAN} down"));
    let before = machine.node.snapshot();
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    chain.add();
    assert!(is_up(&link(&machine, VLAN)));
    chain.del();
    // It was down, and is again.
    assert!(!is_up(&link(&machine, VLAN)));
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip(&format!("link set {VLAN} up"));
    let up = machine.node.snapshot();
    chain.add();
    chain.del();
    machine.node.snapshot().assert_is(&up);
    machine.node.run_ip(&format!("link delete {VLAN}"));
}

#[test]
fn a_parent_that_was_down_is_down_after_its_last_vlan() {
    let machine = LabMachine::shared();
    machine.node.run_ip("link add parent type veth peer name far");
    machine.node.run_ip("link set parent up");
    machine.node.run_ip("link set parent down");
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let on = |pod: &TestPod, id: u16| {
        let conf = json!({"interfaces": ["parent"], "vlanID": id});
        MasterChain::new(&machine, pod, &id.to_string(), &conf, &format!("parent.{id}"))
    };
    on(&one, 7).add();
    on(&two, 8).add();
    on(&one, 7).del();
    assert!(is_up(&link(&machine, "parent")), "the other VLAN needs it");
    on(&two, 8).del();
    drop((one, two));
    machine.node.snapshot().assert_is(&before);
    machine.node.run_ip("link delete parent");
}

#[test]
fn an_interface_with_vfs_is_not_set_down() {
    let machine = LabMachine::shared();
    machine.node.run_ip("link set eth1 down");
    let pod = machine.node.pod("a");
    let conf = json!({"interfaces": ["eth1"], "vlanID": 7});
    let chain = MasterChain::new(&machine, &pod, "a", &conf, "eth1.7");
    chain.add();
    chain.del();
    let is_up = is_up(&link(&machine, "eth1"));
    machine.node.run_ip("link set eth1 up");
    assert!(is_up && machine.node.link("eth1.7").is_none());
}

#[test]
fn a_link_with_other_properties_is_refused_and_both_are_named() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    for (other, shown) in [
        (format!("link add link eth0 name {VLAN} type vlan id 101"), "a vlan with ID 101 on eth0"),
        (format!("link add link eth1 name {VLAN} type vlan id 100"), "a vlan with ID 100 on eth1"),
        (format!("link add name {VLAN} type bridge"), "a bridge"),
        (format!("link add link eth0 name {VLAN} type macvlan"), "a macvlan on eth0"),
    ] {
        machine.node.run_ip(&other);
        let before = machine.node.snapshot();
        chain.ifacer().add().error(102).says(&[VLAN, shown, "a vlan with ID 100 on eth0"]);
        chain.ifacer().status().error(50).says(&[shown]);
        chain.ifacer().del().done();
        machine.node.snapshot().assert_is(&before);
        machine.node.run_ip(&format!("link delete {VLAN}"));
    }
    machine.node.run_ip("link add link eth0 name storage type vlan id 100");
    chain.ifacer().add().error(102).says(&["VLAN 100 of eth0 is the link storage", VLAN]);
    machine.node.run_ip("link delete storage");
    chain.ifacer().status().done();
}

#[test]
fn a_link_that_something_else_uses_is_kept_until_gc() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let (pod, other) = (machine.node.pod("a"), machine.node.pod("b"));
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    let uses = [
        (format!("address add 10.99.0.1/24 dev {VLAN}"), format!("address delete 10.99.0.1/24 dev {VLAN}")),
        (format!("link add link {VLAN} name child type macvlan"), "link delete child".into()),
        (
            format!("link add link {VLAN} name child netns {} type macvlan", other.path().display()),
            format!("-n {} link delete child", other.path().display()),
        ),
    ];
    for (use_it, end) in uses {
        chain.add();
        machine.node.run_ip(&use_it);
        chain.del();
        let kept = link(&machine, VLAN)["ifindex"].clone();
        // It is still ifacer's for the next pod.
        chain.add();
        assert_eq!(link(&machine, VLAN)["ifindex"], kept);
        chain.del();
        if end.starts_with("-n") {
            other.run_ip("link delete child")
        } else {
            machine.node.run_ip(&end)
        }
        assert!(machine.node.link(VLAN).is_some());
        let ran = chain.ifacer().with("cni.dev/valid-attachments", &json!([])).gc();
        ran.done();
        assert!(machine.node.link(VLAN).is_none(), "{use_it}: {}", ran.stderr);
    }
    drop((pod, other));
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn an_address_of_a_router_advertisement_does_not_keep_a_vlan() {
    let machine = LabMachine::shared();
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    chain.add();
    // As the kernel adds it: with a lifetime.
    machine.node.run_ip(&format!("address add fd00:99::1/64 dev {VLAN} valid_lft 900 preferred_lft 900"));
    chain.del();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn a_renamed_vlan_is_not_deleted() {
    let machine = LabMachine::shared();
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    chain.add();
    machine.node.run_ip(&format!("link set {VLAN} down"));
    machine.node.run_ip(&format!("link set {VLAN} name storage"));
    chain.del();
    assert!(machine.node.link("storage").is_some(), "it is not ifacer's any more");
    machine.node.run_ip("link delete storage");
    drop(pod);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_del_needs_neither_the_namespace_nor_state() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let (pod, other) = (machine.node.pod("a"), machine.node.pod("b"));
    let (chain, rest) =
        (MasterChain::on_vlan(&machine, &pod, "a"), MasterChain::on_vlan(&machine, &other, "b"));
    chain.add();
    rest.add();
    pod.end();
    chain.del();
    assert!(other.link("net1").is_some() && machine.node.link(VLAN).is_some());
    // In the order of the configuration, and with its journal lost.
    fs::remove_file(machine.node.state_dir().join("attachments/b@net1.ifacer.journal")).unwrap();
    rest.ifacer().del().done();
    assert!(machine.node.link(VLAN).is_some(), "the pod's link is still on it");
    rest.next().del().done();
    rest.ifacer().with("cni.dev/valid-attachments", &json!([])).gc().done();
    assert!(machine.node.link(VLAN).is_none());
    rest.add();
    fs::remove_dir_all(machine.node.state_dir()).unwrap();
    rest.del();
    assert!(machine.node.link(VLAN).is_some(), "without state it is not known to be ifacer's");
    machine.node.run_ip(&format!("link delete {VLAN}"));
    drop(other);
    fs::create_dir_all(machine.node.state_dir()).unwrap();
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn gc_reverts_the_uses_of_pods_that_are_gone() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let (one, two) = (machine.node.pod("a"), machine.node.pod("b"));
    let (gone, running) =
        (MasterChain::on_vlan(&machine, &one, "a"), MasterChain::on_vlan(&machine, &two, "b"));
    gone.add();
    running.add();
    one.end();
    gc(&machine);
    assert!(two.link("net1").is_some(), "the VLAN of the running pod was deleted");
    two.end();
    gc(&machine);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn check_finds_a_link_that_is_gone_replaced_or_down() {
    let machine = LabMachine::shared();
    let pod = machine.node.pod("a");
    let chain = MasterChain::on_vlan(&machine, &pod, "a");
    let result = chain.ifacer().add().ok();
    let check = || chain.ifacer().check_after(&result);
    check().done();
    // With the index of the first one, which the kernel may give it, the second would be taken for it.
    let other_index = machine.node.link(VLAN).unwrap()["ifindex"].as_u64().unwrap() + 100;
    machine.node.run_ip(&format!("link set {VLAN} down"));
    check().error(103).says(&[VLAN, "down"]);
    machine.node.run_ip(&format!("link delete {VLAN}"));
    check().error(103).says(&[VLAN, "gone"]);
    machine.node.run_ip(&format!("link add link eth0 name {VLAN} index {other_index} type vlan id 100"));
    check().error(103).says(&[VLAN]);
    chain.ifacer().del().done();
    assert!(machine.node.link(VLAN).is_some(), "it is not the link that ifacer created");
    machine.node.run_ip(&format!("link delete {VLAN}"));
    check().error(103).says(&["a@net1"]);
}

#[test]
fn invariant_1_a_vlan_add_fails_or_is_killed_at_every_step_and_leaves_nothing() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    for fault in ["error", "kill"] {
        for step in Share::of_tests_of(&["plugins/meta/ifacer"]).steps(&format!("vlan {fault}")) {
            let pod = machine.node.pod("a");
            let chain = MasterChain::on_vlan(&machine, &pod, "a");
            let answer = chain.ifacer().clone().fault(&format!("{fault}:{step}")).add();
            if fault == "kill" || answer.status.success() {
                if step % 2 == 0 {
                    chain.del()
                } else {
                    gc(&machine)
                }
                drop(pod);
                gc(&machine);
            } else {
                drop(pod);
            }
            machine.node.snapshot().assert_is(&before);
            if answer.status.success() {
                assert!(step > 4, "only {step} steps were seen");
                break;
            }
        }
    }
}

#[test]
fn invariant_2_a_del_that_is_killed_is_finished_by_the_next() {
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    for step in 1.. {
        let pod = machine.node.pod("a");
        let chain = MasterChain::on_vlan(&machine, &pod, "a");
        chain.add();
        chain.next().del().done();
        let killed = chain.ifacer().clone().fault(&format!("kill:{step}")).del().was_killed();
        chain.ifacer().del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !killed {
            assert!(step > 2, "only {step} steps were seen");
            break;
        }
    }
}

#[test]
fn parallel_pods_never_lose_the_vlan_and_the_last_deletes_it() {
    const PODS: usize = 6;
    let machine = LabMachine::shared();
    let before = machine.node.snapshot();
    let pods: Vec<TestPod> = (0..PODS).map(|number| machine.node.pod(&format!("p{number}"))).collect();
    thread::scope(|scope| {
        for (number, pod) in pods.iter().enumerate() {
            let chain = MasterChain::on_vlan(&machine, pod, &format!("p{number}"));
            scope.spawn(move || {
                for _ in 0..3 {
                    chain.add();
                    assert!(pod.link("net1").is_some(), "the VLAN below a running pod was deleted");
                    chain.del();
                }
            });
        }
    });
    drop(pods);
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn what_is_missing_is_reported_before_any_change() {
    let machine = LabMachine::shared();
    let (before, pod) = (machine.node.snapshot(), machine.node.pod("a"));
    let call = |conf: &Value| MasterChain::new(&machine, &pod, "a", conf, "x").ifacer().clone();
    let missing = call(&json!({"interfaces": ["eth77"], "vlanID": 100}));
    missing.status().error(50).says(&["eth77", "no link"]);
    missing.add().error(7).says(&["interfaces", "eth77"]);
    call(&json!({"interfaces": ["lo"], "vlanID": 100})).add().error(7).says(&["lo", "Ethernet"]);
    call(&vlan()).with("cniVersion", &json!("0.2.0")).add().refusal();
    drop(pod);
    machine.node.snapshot().assert_is(&before);
    assert!(!machine.node.state_dir().join("masters").exists());
}
