//! One budget for all the waits of a call: a call ends before its runtime's timeout.

use std::{fs::File, thread, time::Duration};

use serde_json::json;
use testkit::{Call, FakeIpam, Observe, Refusal, wait_until};

use silkrail_tests::rail::RailNode;

use crate::locks::is_open_elsewhere;

/// How long an IPAM plugin takes, in seconds: longer than any budget of these tests.
const LONG: f32 = 20.0;

fn assert_details(refusal: &Refusal, parts: &[&str]) {
    for part in parts {
        assert!(refusal.details.contains(part), "{part:?} is not in {:?}", refusal.details);
    }
}

/// An IPAM plugin that allocates an address, and a call that may wait for `budget` milliseconds.
fn with_budget(rail: &RailNode, budget: &str) -> (FakeIpam, Call) {
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    let call = rail.with_ipam(&ipam).env("SILKRAIL_BUDGET", budget);
    (ipam, call)
}

#[test]
fn invariant_8_waits_that_exceed_the_budget_end_and_the_error_lists_their_durations() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let (ipam, call) = with_budget(&rail, "2000:2000");
    assert!(rail.with_ipam(&ipam).fault("kill:2").add().was_killed());
    ipam.delay(LONG);
    // The journal of the killed ADD is locked for a while; then its addresses are released slowly.
    let journal = rail.node.state_dir().join("attachments/c0ffee@net1.macvlan.journal");
    let lock = File::open(&journal).unwrap();
    lock.lock().unwrap();
    let refusal = thread::scope(|scope| {
        let call = scope.spawn(|| call.add());
        wait_until("the call waits for the lock", || is_open_elsewhere(&journal));
        thread::sleep(Duration::from_millis(500));
        lock.unlock().unwrap();
        call.join().unwrap().error(11)
    });
    refusal.says(&["the IPAM plugin ", "did not finish its DEL within"]);
    assert_details(
        &refusal,
        &[
            "the 2 s that an ADD may wait are used up",
            "another call about the attachment ",
            "the IPAM plugin ",
        ],
    );
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    ipam.delay(0.0);
    rail.with_ipam(&ipam).del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_ipam_plugin_and_duplicate_address_detection_share_one_budget() {
    let rail = RailNode::new();
    // Each of the two alone would be within the budget: the kernel takes three to four seconds.
    rail.pod.set_sysctl("net/ipv6/conf/default/dad_transmits", "3");
    let before = rail.node.snapshot();
    let (ipam, call) = with_budget(&rail, "5000:8000");
    ipam.set_result("ADD", &json!({"ips": [{"address": "fd00:7::5/64", "gateway": "fd00:7::1"}]}));
    ipam.delay(2.5);
    let refusal = call.add().error(11);
    refusal.says(&["fd00:7::5", "is still being checked for duplicates after "]);
    assert_details(&refusal, &["the IPAM plugin ", "duplicate address detection "]);
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn an_add_that_exceeds_its_budget_still_reverts_its_changes() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let (ipam, call) = with_budget(&rail, "500:8000");
    ipam.delay(1.5);
    let refusal = call.add().error(11);
    refusal.says(&["did not finish its ADD within "]);
    assert_details(
        &refusal,
        &[
            "the 0.5 s that an ADD may wait are used up",
            "by: the IPAM plugin ",
            "; the revert then waited for: the IPAM plugin",
        ],
    );
    assert!(!refusal.details.contains("not reverted"), "{}", refusal.details);
    assert_eq!(ipam.verbs(), ["ADD", "DEL"]);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn a_del_that_exceeds_its_budget_fails_and_the_next_one_finishes() {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let (ipam, call) = with_budget(&rail, "700");
    rail.with_ipam(&ipam).add().ok();
    ipam.delay(LONG);
    let refusal = call.del().error(11);
    refusal.says(&["failed to revert", "did not finish its DEL within"]);
    assert_details(&refusal, &["the 0.7 s that a DEL may wait are used up", "by: the IPAM plugin "]);
    ipam.delay(0.0);
    rail.with_ipam(&ipam).del().done();
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn one_slow_attachment_does_not_use_the_whole_budget_of_a_gc() {
    let rail = RailNode::new().with_every_process();
    let (ipam, call) = with_budget(&rail, "5000");
    let add = |id: &str, ifname: &str| rail.with_ipam(&ipam).container(id).ifname(ifname).add().ok();
    add("first", "net1");
    ipam.set_result("ADD", &json!({"ips": [{"address": "10.7.0.6/24"}]}));
    add("second", "net2");
    ipam.delay(LONG);
    let rail = rail.next_pod("b");
    let refusal = call.with("cni.dev/valid-attachments", &json!([])).gc().error(11);
    assert_details(&refusal, &["the 5 s that a GC may wait are used up"]);
    assert_eq!(ipam.verbs(), ["ADD", "ADD", "DEL", "DEL", "GC"]);
    ipam.delay(0.0);
    rail.with_ipam(&ipam).with("cni.dev/valid-attachments", &json!([])).gc().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn a_gc_of_many_slow_attachments_makes_progress() {
    let rail = RailNode::new().with_every_process();
    let (ipam, call) = with_budget(&rail, "6000");
    for number in 0..12 {
        ipam.set_result("ADD", &json!({"ips": [{"address": format!("10.7.0.{}/24", number + 5)}]}));
        rail.with_ipam(&ipam).container(&format!("c{number}")).ifname(&format!("net{number}")).add().ok();
    }
    let rail = rail.next_pod("b");
    // Twelve of these take longer than the budget, and one takes half of its share.
    ipam.delay(0.6);
    call.with("cni.dev/valid-attachments", &json!([])).gc().error(11);
    ipam.delay(0.0);
    let left = rail.node.snapshot().state().iter().filter(|file| file.contains("attachments")).count();
    assert!((1..12).contains(&left), "{left} of 12 are left");
    rail.with_ipam(&ipam).with("cni.dev/valid-attachments", &json!([])).gc().done();
    assert!(rail.node.snapshot().state().is_empty());
}

#[test]
fn an_ipam_plugin_gets_as_much_time_as_its_own_timeout() {
    let rail = RailNode::new();
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    // whereabouts has a timeout of two minutes, so the limit must be above 40 s.
    ipam.delay(42.0);
    rail.with_ipam(&ipam).add().ok();
    assert_eq!(ipam.verbs(), ["ADD"]);
    ipam.delay(0.0);
    rail.with_ipam(&ipam).del().done();
}
