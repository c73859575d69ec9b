//! All VFs of the machine at once.

use std::{collections::BTreeSet, thread};

use serde_json::{Value, json};
use testkit::{FakeIpam, Observe, TestPod, wait_until};

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf, rdma_devices},
};

/// Everything `ip` and `rdma` say about the machine, but for what counts up by itself.
fn facts(machine: &LabMachine) -> Vec<String> {
    let mut facts = Vec::new();
    for mut link in machine.node.links() {
        let link_object = link.as_object_mut().unwrap();
        link_object.remove("stats");
        link_object.remove("stats64");
        // A VF's counters on its PF count frames that the kernel sends by itself.
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
    assert_eq!(addresses.len(), 14, "every pod has an address of its own");
    pods
}

fn each_sees_only_its_own(machine: &LabMachine, pods: &[(LabVf, TestPod, Chain)]) {
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
fn fourteen_vfs_at_once_and_back_in_another_order_and_again() {
    let machine = LabMachine::exclusive();
    let (before, state) = (facts(&machine), machine.node.snapshot());
    let pods = attach(&machine);
    each_sees_only_its_own(&machine, &pods);

    // Another order than that of the ADDs: the last of the odd ones first.
    let order = (0..14).rev().step_by(2).chain((0..14).step_by(2));
    order.clone().for_each(|index| pods[index].2.del());
    let away = wait_for(&machine, &before);
    assert!(away.is_empty(), "not as before:\n{away}");
    order.for_each(|index| pods[index].2.del());
    drop(pods);
    machine.node.snapshot().assert_is(&state);
}

#[test]
fn invariant_2_fourteen_vfs_come_back_when_every_namespace_is_gone_before_the_del() {
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
    let away = wait_for(&machine, &before);
    assert!(away.is_empty(), "not as before:\n{away}");
    chains.iter().rev().for_each(Chain::del);
    machine.node.snapshot().assert_is(&state);
}

/// Which of fourteen pods have lost their namespaces before their DELs.
#[derive(Debug, Clone, Copy)]
enum LostNamespaces {
    None,
    All,
    /// Of these the kernel moves the devices home, of the others we do.
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

/// DELs of all pods at once, in one of the two orders of a chain.
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
fn invariant_11_fourteen_pods_come_and_go_at_once_and_every_number_is_the_same() {
    let machine = LabMachine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    let before = machine.char_devices();
    assert!(before.values().all(|nodes| nodes.len() == 2), "each has user-space access and MADs: {before:?}");
    let kinds = [LostNamespaces::None, LostNamespaces::All, LostNamespaces::Half];
    for round in 0..10 {
        let (rdma_first, gone) = (round % 2 == 0, kinds[round % kinds.len()]);
        let pods = attach(&machine);
        each_sees_only_its_own(&machine, &pods);
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
fn invariant_11_pods_that_come_while_others_die_have_their_numbers() {
    let machine = LabMachine::exclusive();
    machine.node.run("modprobe", &["ib_umad"]);
    let before = machine.char_devices();
    let vfs = machine.vfs();
    let pod = |index: usize| {
        let pod = machine.node.pod(&format!("pod{index}"));
        let chain = Chain::new(&machine, &vfs[index], &pod, json!({}));
        (pod, chain)
    };
    for round in 0..5 {
        let (mut dying, coming): (Vec<_>, Vec<_>) = (0..vfs.len()).partition(|index| index % 2 == round % 2);
        let former: Vec<_> = dying.drain(..).map(pod).collect();
        former.iter().for_each(|(_, chain)| drop(chain.add()));
        let next: Vec<_> = coming.into_iter().map(pod).collect();
        // The kernel brings the devices of the former pods home while the next pods get theirs.
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

/// What differs from before, once the kernel has nothing left to do: the carrier of a VF that was set up
/// comes by polling.
fn wait_for(machine: &LabMachine, before: &[String]) -> String {
    let difference = || {
        let now = facts(machine);
        let lost = before.iter().filter(|fact| !now.contains(fact)).map(|fact| format!("- {fact}\n"));
        let new = now.iter().filter(|fact| !before.contains(fact)).map(|fact| format!("+ {fact}\n"));
        lost.chain(new).collect::<String>()
    };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until("the machine is as before", || difference().is_empty());
    }));
    difference()
}

#[test]
fn a_slow_attachment_delays_no_other_of_the_same_pf() {
    let machine = LabMachine::exclusive();
    let (slow_pod, quick_pod) = (machine.node.pod("slow"), machine.node.pod("quick"));
    let ipam = FakeIpam::giving(&machine.node, &json!({"ips": [{"address": "172.81.0.5/16"}]}));
    ipam.holds();
    let slow =
        Chain::new(&machine, &machine.vf("eth0", 0), &slow_pod, json!({"ipam": {"type": "fake"}, "vlan": 7}));
    let slow = slow.sriov().clone().delegates_in(ipam.dir());
    let quick = Chain::new(&machine, &machine.vf("eth0", 1), &quick_pod, json!({"vlan": 8}));
    thread::scope(|scope| {
        let running = scope.spawn(|| slow.add());
        wait_until("the slow one waits for its addresses", || ipam.was_called());
        // If they had to wait for the slow one, they would wait in vain and fail.
        quick.add();
        quick.del();
        ipam.lets_go();
        running.join().unwrap().ok();
    });
    slow.del().done();
}
