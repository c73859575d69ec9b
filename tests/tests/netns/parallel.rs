//! Concurrent calls.

use std::{collections::BTreeSet, thread};

use serde_json::json;
use testkit::{Answer, Call, FakeIpam, Observe, TestPod, wait_until};

use silkrail_tests::rail::{RailNode, ip, ipam};

/// Makes all calls concurrently, and returns their results in order.
fn at_once(calls: &[Call], call: impl Fn(&Call) -> Answer + Sync) -> Vec<Answer> {
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|one| scope.spawn(|| call(one))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn case_056_fifty_adds_at_once_on_one_master() {
    let rail = RailNode::new();
    let pods: Vec<TestPod> = (0..50).map(|n| rail.node.pod(&format!("pod{n}"))).collect();
    let before = rail.node.snapshot();
    let all = json!({"ipam": ipam(&["10.7.0.10-10.7.0.59"])});
    let calls: Vec<Call> = pods
        .iter()
        .enumerate()
        .map(|(n, pod)| rail.macvlan(&all).pod(pod).container(&format!("c{n}")))
        .collect();
    let results: Vec<_> = at_once(&calls, Call::add).iter().map(Answer::ok).collect();
    let macs: BTreeSet<String> = results.iter().map(|r| r["interfaces"][0]["mac"].to_string()).collect();
    let addresses: BTreeSet<String> = results.iter().map(ip).collect();
    assert_eq!((macs.len(), addresses.len()), (50, 50));
    for (pod, result) in pods.iter().zip(&results) {
        assert_eq!(pod.addresses("net1"), [result["ips"][0]["address"].as_str().unwrap()]);
        assert_eq!(pod.link_names(), ["lo", "net1"]);
    }
    at_once(&calls, Call::del).iter().for_each(Answer::done);
    rail.node.snapshot().assert_is(&before);
}

#[test]
fn ipam_case_045_concurrent_adds_and_dels_leave_the_result_of_each_last_call() {
    let rail = RailNode::new();
    let pool = json!({"pools": [silkrail_tests::rail::pool("rail", &["10.7.0.10-10.7.0.29"])]});
    let calls: Vec<Call> = (0..20).map(|n| rail.ipam(&pool).container(&format!("c{n}"))).collect();
    let last: Vec<_> = at_once(&calls, |call| {
        for _ in 0..4 {
            call.add().ok();
            call.del().done();
        }
        call.add()
    });
    let mut given: Vec<String> = last.iter().map(|answer| ip(&answer.ok())).collect();
    given.sort();
    assert_eq!(rail.node.snapshot().claims(), given);
}

#[test]
fn a_slow_attachment_delays_no_other() {
    let rail = RailNode::new();
    let (other, before) = (rail.node.pod("b"), rail.node.snapshot());
    let ipam = FakeIpam::returning(&rail.node, &json!({"ips": [{"address": "10.7.0.5/24"}]}));
    ipam.block();
    let slow = rail.with_ipam(&ipam).container("slow");
    let quick = rail.macvlan(&json!({})).pod(&other).container("quick");
    thread::scope(|scope| {
        let running = scope.spawn(|| slow.add());
        wait_until("the slow one waits for its addresses", || ipam.was_called());
        // These calls would time out if they had to wait for the slow one.
        quick.add().ok();
        quick.del().done();
        ipam.unblock();
        running.join().unwrap().ok();
    });
    slow.del().done();
    rail.node.snapshot().assert_is(&before);
}
