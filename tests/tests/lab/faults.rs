//! Invariant 1: an ADD of `sriov` and `rdma` that is killed at any step leaves nothing; [`crate::isolation`] has both in one.

use serde_json::json;
use silkrail_tests::{chain::Chain, machine::LabMachine};
use testkit::Share;

#[test]
fn invariant_1_rdma_is_killed_at_every_step_and_del_reverts_it() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth1", 1);
    for step in Share::of_tests_of(&["plugins/main/sriov", "plugins/meta/rdma"]).steps("rdma") {
        let pod = machine.node.pod("a");
        let chain = Chain::new(&machine, &vf, &pod, json!({}));
        let result = chain.sriov().add().ok();
        let answer = chain.rdma().with("prevResult", &result).fault(&format!("kill:{step}")).add();
        // Every other time the namespace is gone before the DEL.
        let pod = (step % 2 == 1).then_some(pod);
        chain.del();
        drop(pod);
        machine.node.snapshot().assert_is(&before);
        if !answer.was_killed() {
            answer.ok();
            assert!(step > 4, "only {step} steps were seen");
            break;
        }
    }
}

#[test]
fn invariant_1_a_killed_add_is_reverted_by_the_next_add_of_the_vf() {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vf = machine.vf("eth0", 1);
    for step in [2, 5, 8, 10] {
        let (first, second) = (machine.node.pod("a"), machine.node.pod("b"));
        let killed = Chain::new(&machine, &vf, &first, json!({"vlan": 321, "trust": "on", "mtu": 1400}));
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
    for step in Share::of_tests_of(&["plugins/main/sriov", "plugins/meta/rdma"]).steps("CHECK of sriov") {
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
