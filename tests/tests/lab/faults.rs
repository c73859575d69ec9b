//! Invariant 1: an ADD that fails or is killed at any step leaves nothing.

use serde_json::{Value, json};
use testkit::Answer;

use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf},
};

const SETTINGS: fn() -> Value = || json!({"vlan": 321, "trust": "on", "mtu": 1400});

#[test]
fn invariant_1_sriov_fails_at_every_step_and_leaves_nothing() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    for step in 1.. {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, SETTINGS());
        let answer = chain.sriov().clone().fault(&format!("error:{step}")).add();
        if answer.status.success() {
            assert!(step > 8, "only {step} steps were seen");
            chain.sriov().del().done();
            break;
        }
        drop(pod);
        machine.node.snapshot().assert_is(&before);
    }
    machine.node.snapshot().assert_is(&before);
}

#[test]
fn case_109_sriov_is_killed_at_every_step_and_del_reverts_it() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth0", 0);
    let add = |chain: &Chain, fault: &str| chain.sriov().clone().fault(fault).add();
    let steps = kill_at_every_step(&machine, &vf, &SETTINGS(), add, |chain| chain.sriov().del().done());
    assert!(steps > 8, "only {steps} steps were seen");
}

#[test]
fn invariant_1_rdma_is_killed_at_every_step_and_del_reverts_it() {
    let machine = LabMachine::exclusive();
    let vf = machine.vf("eth1", 1);
    let add = |chain: &Chain, fault: &str| {
        let result = chain.sriov().add().ok();
        chain.rdma().with("prevResult", &result).fault(fault).add()
    };
    let steps = kill_at_every_step(&machine, &vf, &json!({}), add, Chain::del);
    assert!(steps > 4, "only {steps} steps were seen");
}

/// Kills an ADD at its first step, at its second, and so on; after each, DEL must restore the node's former state.
/// Returns the first step at which the ADD had ended and was not killed.
fn kill_at_every_step(
    machine: &LabMachine,
    vf: &LabVf,
    settings: &Value,
    add: impl Fn(&Chain, &str) -> Answer,
    del: impl Fn(&Chain),
) -> u32 {
    let before = machine.node.snapshot();
    for step in 1.. {
        let pod = machine.node.pod("a");
        let chain = Chain::new(machine, vf, &pod, settings.clone());
        let answer = add(&chain, &format!("kill:{step}"));
        // Every other time the namespace is gone before the DEL.
        let pod = (step % 2 == 1).then_some(pod);
        del(&chain);
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !answer.was_killed() {
            answer.ok();
            return step;
        }
    }
    unreachable!("the number of steps is finite")
}

#[test]
fn invariant_1_a_killed_add_is_reverted_by_the_next_add_of_the_vf() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    for step in [2, 5, 8, 10] {
        let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
        let killed = Chain::new(&machine, &vf, &first, SETTINGS());
        let answer = killed.sriov().clone().fault(&format!("kill:{step}")).add();
        assert!(answer.was_killed(), "step {step}: {answer:?}");
        first.end();
        let next = Chain::new(&machine, &vf, &second, json!({}));
        let next = next.sriov().clone().container("next");
        next.add().ok();
        next.del().done();
        drop(second);
        machine.node.snapshot().assert_is(&before);
    }
}

#[test]
fn check_of_a_killed_add_fails_at_every_step() {
    let machine = LabMachine::exclusive();
    let (vf, pod) = (machine.vf("eth0", 0), machine.node.pod("a"));
    let chain = Chain::new(&machine, &vf, &pod, json!({}));
    let result = chain.sriov().add().ok();
    chain.sriov().check_after(&result).done();
    chain.sriov().del().done();
    for step in 1.. {
        let answer = chain.sriov().clone().fault(&format!("kill:{step}")).add();
        let check = chain.sriov().check_after(&result);
        chain.sriov().del().done();
        if !answer.was_killed() {
            answer.ok();
            assert!(step > 8, "only {step} steps were seen");
            break;
        }
        assert!(!check.status.success(), "step {step}: {check:?}");
    }
}
