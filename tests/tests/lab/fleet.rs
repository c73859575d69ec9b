//! Concurrent attachments of all VFs of the machine.

use std::{collections::BTreeSet, thread};

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe, Share, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf, rdma_devices},
};

/// Returns everything that `ip` and `rdma` print about the machine, without counters.
fn facts(machine: &LabMachine) -> Vec<String> {
    let mut facts = Vec::new();
    for mut link in machine.node.links() {
        let link_object = link.as_object_mut().unwrap();
        link_object.remove("stats");
        link_object.remove("stats64");
        // igbvf sets it to the current address when it resets a VF (igbvf/netdev.c: igbvf_reset).
        link_object.remove("permaddr");
        // The PF counts the frames that the kernel sends on a VF.
        for vf in link_object.get_mut("vfinfo_list").and_then(Value::as_array_mut).into_iter().flatten() {
            vf.as_object_mut().unwrap().remove("stats");
        }
        facts.push(link.to_string());
    }
    facts.extend(machine.node.rdma("dev show").iter().map(Value::to_string));
    facts.extend(machine.node.rdma("link show").iter().map(Value::to_string));
    facts.extend(machine.char_devices().iter().map(|(pci, nodes)| format!("{pci} {nodes:?}")));
    facts
}

fn settings(index: usize) -> Value {
    if index.is_multiple_of(2) {
        return json!({});
    }
    json!({"vlan": 100 + index, "vlanQoS": 3, "spoofchk": "off", "trust": "on", "mtu": 1400})
}

fn attach(machine: &LabMachine) -> Vec<(LabVf, TestPod, Chain)> {
    let pods: Vec<(LabVf, TestPod, Chain)> = machine
        .vfs()
        .into_iter()
        .enumerate()
        .map(|(index, vf)| {
            let pod = machine.node.pod(&format!("pod{index}"));
            let chain = Chain::new(machine, &vf, &pod, settings(index));
            (vf, pod, chain)
        })
        .collect();
    let addresses: BTreeSet<String> = thread::scope(|scope| {
        let adds: Vec<_> = pods.iter().map(|(_, _, chain)| scope.spawn(|| chain.add())).collect();
        adds.into_iter().map(|add| add.join().unwrap()["ips"][0]["address"].to_string()).collect()
    });
    assert_eq!(addresses.len(), 14, "every pod has a distinct address");
    pods
}

fn check_devices_of_each(machine: &LabMachine, pods: &[(LabVf, TestPod, Chain)]) {
    assert_eq!(machine.rdma_devices(), ["mlx5_0", "mlx5_1"], "the node keeps the PFs' devices only");
    for (index, (vf, pod, _)) in pods.iter().enumerate() {
        assert_eq!(rdma_devices(pod), std::slice::from_ref(&vf.rdma));
        let link = pod.link("net1").unwrap();
        assert_eq!(link["parentdev"], vf.pci);
        let vlan = machine.vf_info(vf)["vlan_list"][0]["vlan"].as_u64().unwrap_or_default();
        let expected = if index.is_multiple_of(2) { 0 } else { 100 + index as u64 };
        assert_eq!(vlan, expected, "{vf:?}");
    }
}

#[test]
fn fourteen_vfs_are_attached_concurrently_and_detached_twice_in_another_order() {
    let machine = LabMachine::exclusive();
    let (before, state) = (facts(&machine), machine.node.snapshot());
    let pods = attach(&machine);
    check_devices_of_each(&machine, &pods);

    // Another order than that of the ADDs: the odd indexes in descending order, then the even ones.
    let order = (0..14).rev().step_by(2).chain((0..14).step_by(2));
    order.clone().for_each(|index| pods[index].2.del());
    let difference = wait_for(&machine, &before);
    assert!(difference.is_empty(), "not in the former state:\n{difference}");
    order.for_each(|index| pods[index].2.del());
    drop(pods);
    machine.node.snapshot().assert_is(&state);
}

#[test]
fn invariant_2_fourteen_vfs_return_when_every_namespace_is_gone_before_the_del() {
    let machine = LabMachine::exclusive();
    let (before, state) = (facts(&machine), machine.node.snapshot());
    let mut chains = Vec::new();
    for (_, pod, chain) in attach(&machine) {
        pod.end();
        chains.push(chain);
    }
    thread::scope(|scope| {
        for chain in &chains {
            scope.spawn(|| chain.del());
        }
    });
    let difference = wait_for(&machine, &before);
    assert!(difference.is_empty(), "not in the former state:\n{difference}");
    chains.iter().rev().for_each(Chain::del);
    machine.node.snapshot().assert_is(&state);
}

/// The pods whose namespaces are deleted before their DELs.
#[derive(Debug, Clone, Copy)]
enum LostNamespaces {
    None,
    All,
    /// The kernel returns the devices of these pods, the plugins those of the others.
    Half,
}

impl LostNamespaces {
    fn is(self, index: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Half => index.is_multiple_of(2),
        }
    }
}

/// Deletes all attachments concurrently, in one of the two orders of a chain.
fn detach(pods: Vec<(LabVf, TestPod, Chain)>, rdma_first: bool, gone: LostNamespaces) {
    let mut chains = Vec::new();
    let mut alive = Vec::new();
    for (index, (_, pod, chain)) in pods.into_iter().enumerate() {
        chains.push(chain);
        if gone.is(index) {
            pod.end();
        } else {
            alive.push(pod);
        }
    }
    thread::scope(|scope| {
        for chain in &chains {
            scope.spawn(|| {
                let order =
                    if rdma_first { [chain.rdma(), chain.sriov()] } else { [chain.sriov(), chain.rdma()] };
                for call in order {
                    call.del().done();
                }
            });
        }
    });
}

#[test]
fn invariant_11_fourteen_concurrent_attachments_keep_all_device_numbers() {
    let machine = LabMachine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    let before = machine.char_devices();
    assert!(before.values().all(|nodes| nodes.len() == 2), "each has a uverbs and a umad device: {before:?}");
    let kinds = [LostNamespaces::None, LostNamespaces::All, LostNamespaces::Half];
    // Every combination of the two.
    for round in Share::of_tests_of(&["plugins/main/sriov", "plugins/meta/rdma"])
        .of_list("orders and lost namespaces", 6)
    {
        let (rdma_first, gone) = (round % 2 == 0, kinds[round % kinds.len()]);
        let pods = attach(&machine);
        check_devices_of_each(&machine, &pods);
        assert_eq!(machine.char_devices(), before, "in the pods, round {round}");
        detach(pods, rdma_first, gone);
        assert_eq!(
            machine.char_devices(),
            before,
            "on the host, round {round}: rdma first {rdma_first}, {gone:?}"
        );
    }
}

#[test]
fn invariant_11_pods_attached_while_others_end_keep_their_device_numbers() {
    let machine = LabMachine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    let before = machine.char_devices();
    let vfs = machine.vfs();
    let pod = |index: usize| {
        let pod = machine.node.pod(&format!("pod{index}"));
        let chain = Chain::new(&machine, &vfs[index], &pod, json!({}));
        (pod, chain)
    };
    for round in Share::of_tests_of(&["plugins/main/sriov", "plugins/meta/rdma"]).of_list("rounds", 4) {
        let (mut ending, starting): (Vec<_>, Vec<_>) =
            (0..vfs.len()).partition(|index| index % 2 == round % 2);
        let former: Vec<_> = ending.drain(..).map(pod).collect();
        former.iter().for_each(|(_, chain)| drop(chain.add()));
        let next: Vec<_> = starting.into_iter().map(pod).collect();
        // The kernel returns the devices of the former pods while the next pods get theirs.
        let chains: Vec<_> = thread::scope(|scope| {
            let adds: Vec<_> = next.iter().map(|(_, chain)| scope.spawn(|| chain.add())).collect();
            let chains = former.into_iter().map(|(pod, chain)| (pod.end(), chain).1).collect();
            adds.into_iter().for_each(|add| drop(add.join().unwrap()));
            chains
        });
        thread::scope(|scope| {
            let next = next.iter().map(|(_, chain)| chain);
            next.chain(&chains).for_each(|chain| drop(scope.spawn(|| chain.del())));
        });
        assert_eq!(machine.char_devices(), before, "round {round}");
    }
}

/// Returns what differs from before, after the kernel has completed its work: the driver polls for the carrier of a VF that
/// was set up.
fn wait_for(machine: &LabMachine, before: &[String]) -> String {
    let difference = || {
        let now = facts(machine);
        let lost = before.iter().filter(|fact| !now.contains(fact)).map(|fact| format!("- {fact}\n"));
        let new = now.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}\n"));
        lost.chain(new).collect::<String>()
    };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until("the machine is in its former state", || difference().is_empty());
    }));
    difference()
}

#[test]
fn a_slow_attachment_delays_no_other_of_the_same_pf() {
    let machine = LabMachine::exclusive();
    let (slow_pod, quick_pod) = (machine.node.pod("slow"), machine.node.pod("quick"));
    let ipam = FakeIpam::returning(&machine.node, &json!({"ips": [{"address": "172.81.0.5/16"}]}));
    ipam.block();
    let slow =
        Chain::new(&machine, &machine.vf("eth0", 0), &slow_pod, json!({"ipam": {"type": "fake"}, "vlan": 7}));
    let slow = slow.sriov().clone().delegates_in(ipam.dir());
    let quick = Chain::new(&machine, &machine.vf("eth0", 1), &quick_pod, json!({"vlan": 8}));
    thread::scope(|scope| {
        let running = scope.spawn(|| slow.add());
        wait_until("the slow one waits for its addresses", || ipam.was_called());
        // If these calls waited for the slow one, they would time out.
        quick.add();
        quick.del();
        ipam.unblock();
        running.join().unwrap().ok();
    });
    slow.del().done();
}
