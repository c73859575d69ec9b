//! Invariant 1: a failed or killed ADD, followed by DEL, GC or the next ADD, leaves the node as before.
//!
//! Debug builds fail, or are killed, at the step that `SILKRAIL_FAULT` names; see `pkg/journal/src/fault_injection.rs`.

use serde_json::json;
use testkit::{Call, FakeIpam, Observe, Snapshot};

use silkrail_tests::rail::{RailNode, ipam};

/// The minimum number of steps; fewer would mean that nothing was injected.
const STEPS: usize = 6;

/// Makes an ADD fail at each of its steps in turn, and calls `after` with the number of the step.
fn at_each_step(call: &Call, fault: &str, mut after: impl FnMut(usize)) {
    for step in 1.. {
        println!("{fault} at step {step}");
        let answer = call.clone().fault(&format!("{fault}:{step}")).add();
        if answer.status.success() {
            assert!(step > STEPS, "only {} steps: is the executable a debug build?", step - 1);
            return;
        }
        assert_eq!(answer.was_killed(), fault == "kill", "{answer:?}");
        after(step);
    }
}

/// A rail with a table and a rule, and a pool of one free address: an address that one attachment keeps is not available to
/// the next.
fn one_address() -> (RailNode, Call, Snapshot) {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"]), "rail": true}));
    let before = rail.node.snapshot();
    (rail, call, before)
}

#[test]
fn invariant_1_an_add_that_fails_at_any_step_leaves_the_node_as_before() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "error", |_| rail.node.snapshot().assert_is(&before));
}

#[test]
fn invariant_1_an_add_that_fails_reports_the_reason() {
    let (rail, call, before) = one_address();
    let refusal = call.fault("error:3").add().error(999);
    refusal.says(&["injected fault"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_1_an_add_that_is_killed_at_any_step_is_reverted_by_del() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "kill", |_| {
        call.del().done();
        rail.node.snapshot().assert_is(&before);
    });
}

#[test]
fn invariant_1_an_add_that_is_killed_at_any_step_is_reverted_by_del_without_the_namespace() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "kill", |_| {
        call.clone().env("CNI_NETNS", "").del().done();
        rail.node.snapshot().assert_is(&before);
    });
}

#[test]
fn invariant_1_an_add_that_is_killed_at_any_step_is_reverted_by_the_next_add() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "kill", |step| {
        call.add().ok();
        assert_eq!(rail.pod.addresses("net1"), ["10.7.0.10/24"], "after a kill at step {step}");
        call.del().done();
        rail.node.snapshot().assert_is(&before);
    });
}

#[test]
fn invariant_1_an_add_that_is_killed_at_any_step_is_reverted_by_gc() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "kill", |_| {
        call.with("cni.dev/valid-attachments", &json!([])).gc().done();
        rail.node.snapshot().assert_is(&before);
    });
}

#[test]
fn invariant_1_an_add_that_is_killed_twice_is_reverted() {
    let (rail, call, before) = one_address();
    at_each_step(&call, "kill", |step| {
        let again = call.clone().fault(&format!("kill:{step}")).add();
        assert!(again.was_killed());
        call.del().done();
        rail.node.snapshot().assert_is(&before);
    });
}

#[test]
fn invariant_1_the_address_of_a_killed_add_in_a_pod_that_ended_is_released() {
    let RailNode { mut pod, node, switch } = RailNode::new();
    let mut rail = RailNode { pod: node.pod("b"), node, switch };
    let call = rail.macvlan(&json!({"ipam": ipam(&["10.7.0.10"]), "rail": true}));
    for step in 1..=STEPS {
        // Each round uses the path of another pod.
        let ending = std::mem::replace(&mut pod, rail.node.pod(&format!("dying{step}")));
        let stale = call.clone().pod(&ending);
        assert!(stale.clone().fault(&format!("kill:{step}")).add().was_killed());
        ending.end();
        stale.del().done();
        assert!(rail.node.snapshot().state().is_empty(), "{:?}", rail.node.snapshot().state());
    }
    rail.pod = pod;
    call.pod(&rail.pod).add().ok();
}

#[test]
fn invariant_1_an_add_that_is_killed_within_the_ipam_plugin_is_reverted() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    ipam.kills_its_caller_at("ADD");
    assert!(call.add().was_killed());
    call.del().done();
    // Once for the journal and once for the configuration: a truncated journal may be incomplete.
    assert_eq!(ipam.verbs(), ["ADD", "DEL", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_2_a_del_that_is_killed_or_fails_at_any_step_is_finished_by_the_next() {
    let (rail, call, before) = one_address();
    for fault in ["kill", "error"] {
        for step in 1.. {
            println!("{fault} at step {step}");
            call.add().ok();
            let answer = call.clone().fault(&format!("{fault}:{step}")).del();
            if answer.status.success() {
                assert!(step > 3, "only {} steps: is the executable a debug build?", step - 1);
                break;
            }
            assert_eq!(answer.was_killed(), fault == "kill", "{answer:?}");
            call.del().done();
            rail.node.snapshot().assert_is(&before);
        }
        call.del().done();
    }
}

#[test]
fn invariant_2_a_del_that_is_killed_is_finished_by_the_next() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam);
    call.add().ok();
    ipam.kills_its_caller_at("DEL");
    assert!(call.del().was_killed());
    ipam.recovers("DEL");
    call.del().done();
    assert_eq!(ipam.verbs(), ["ADD", "DEL", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn invariant_4_two_attachments_never_have_the_same_address_if_one_add_is_killed() {
    let (rail, call, _) = one_address();
    let other = rail.node.pod("b");
    let second = call.clone().pod(&other).container("second");
    at_each_step(&call, "kill", |step| {
        let answer = second.add();
        let taken = rail.pod.addresses("net1").contains(&"10.7.0.10/24".to_owned());
        assert!(!(taken && answer.status.success()), "both have it after a kill at step {step}");
        call.del().done();
        second.del().done();
        assert!(rail.node.snapshot().claims().is_empty());
    });
}

#[test]
fn check_of_a_killed_add_fails_at_every_step() {
    let rail = RailNode::new();
    let call = rail.macvlan(&json!({}));
    let result = call.add().ok();
    call.check_after(&result).done();
    call.del().done();
    for step in 1.. {
        let answer = call.clone().fault(&format!("kill:{step}")).add();
        let check = call.check_after(&result);
        call.del().done();
        if !answer.was_killed() {
            answer.ok();
            assert!(step > 4, "only {step} steps were seen");
            break;
        }
        assert!(!check.status.success(), "step {step}: {check:?}");
    }
}
