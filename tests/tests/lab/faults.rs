//! Invariant 1: a failed or killed ADD leaves nothing, whatever step it was at.

use serde_json::json;

use crate::{chain::Chain, machine::Machine};

const SETTINGS: fn() -> serde_json::Value = || json!({"vlan": 321, "trust": "on", "mtu": 1400});

#[test]
fn invariant_1_sriov_fails_at_every_step_and_leaves_nothing() {
    let machine = Machine::exclusive();
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
fn case_109_sriov_is_killed_at_every_step_and_del_puts_it_right() {
    let machine = Machine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 0);
    for step in 1.. {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, SETTINGS());
        let answer = chain.sriov().clone().fault(&format!("kill:{step}")).add();
        let killed = answer.was_killed();
        // Every other time the namespace is gone before the DEL.
        let pod = if step % 2 == 0 {
            drop(pod);
            None
        } else {
            Some(pod)
        };
        chain.sriov().del().done();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !killed {
            assert!(step > 8, "only {step} steps were seen");
            break;
        }
    }
}

#[test]
fn invariant_1_rdma_is_killed_at_every_step_and_del_puts_it_right() {
    let machine = Machine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 1);
    for step in 1.. {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        let result = chain.sriov().add().ok();
        let answer = chain.rdma().with("prevResult", &result).fault(&format!("kill:{step}")).add();
        let killed = answer.was_killed();
        let pod = if step % 2 == 0 {
            drop(pod);
            None
        } else {
            Some(pod)
        };
        chain.del();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !killed {
            assert!(step > 4, "only {step} steps were seen");
            break;
        }
    }
}

#[test]
fn invariant_1_a_killed_add_is_put_right_by_the_next_add_of_the_vf() {
    let machine = Machine::exclusive();
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
