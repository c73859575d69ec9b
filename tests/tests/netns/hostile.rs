//! Pods that change their macvlan in every way that the kernel permits.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde_json::json;
use testkit::{Observe, Share, wait_until};

use silkrail_tests::{
    hostile::{ANY_LINK, HostileAction, NetnsOwner, PodEnd},
    rail::RailNode,
};

/// Returns the MAC address in the reply to an ARP request of the switch for an IPv4 address, if any.
fn resolve(rail: &RailNode, address: &str) -> Option<String> {
    rail.switch.set_sysctl("net/ipv4/neigh/port0/retrans_time_ms", "50");
    rail.switch.run_ip("address add 10.7.255.1/16 dev port0");
    let send = format!(
        "socket(S, 2, 2, 0); send(S, q(x), 0, pack(q(Sna4x8), 2, 9, pack(q(C4), {})))",
        address.replace('.', ",")
    );
    rail.switch.run("perl", &["-e", &send]);
    let entry = || rail.switch.ip(&format!("neigh show {address}")).into_iter().next().unwrap();
    wait_until("the address is resolved or the request has failed", || {
        entry()["state"] != json!(["INCOMPLETE"])
    });
    let mac = entry()["lladdr"].as_str().map(str::to_owned);
    rail.switch.run_ip("address del 10.7.255.1/16 dev port0");
    mac
}

/// Runs one action, and returns the changes that remain on the node or affect the next pod.
fn persistent_changes(action: &HostileAction, owner: NetnsOwner, end: PodEnd) -> Result<String, String> {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let pod = match owner {
        NetnsOwner::Machines => rail.node.pod("hostile"),
        NetnsOwner::Own => rail.node.pod_in_a_user_namespace("hostile"),
    };
    let call = rail.macvlan(&json!({})).pod(&pod);
    call.add().ok();
    let running = action.run(&pod, "")?;
    let mut changes = String::new();
    let mut delete = || {
        let answer = call.del();
        if !answer.status.success() {
            let _ = writeln!(changes, "  DEL: {}", answer.stdout);
        }
    };
    match end {
        PodEnd::DelFirst => {
            delete();
            // The next pod may get its address now.
            if let Some(mac) = resolve(&rail, "10.7.0.10") {
                let _ = writeln!(changes, "  {mac} still replies for the address");
            }
            drop(running);
            drop(pod);
        }
        PodEnd::DiesFirst => {
            drop(running);
            pod.end();
            delete();
        }
    }
    // The kernel deletes the links of a deleted namespace in the background.
    let deadline = Instant::now() + Duration::from_secs(60);
    let difference = loop {
        let difference = rail.node.snapshot().difference(&before);
        if difference.is_empty() || Instant::now() >= deadline {
            break difference;
        }
    };
    changes += &difference;
    let next = rail.macvlan(&json!({})).container("next");
    let result = next.add();
    if result.status.success() {
        next.check_after(&result.ok()).done();
        next.del().done();
    } else {
        let _ = writeln!(changes, "  the next ADD: {}", result.stdout);
    }
    Ok(changes)
}

/// Runs a share of the actions, and returns the number of those that the kernel refused.
fn assert_nothing_persists(owner: NetnsOwner, end: PodEnd) -> usize {
    let (mut all, mut refused) = (String::new(), 0);
    let share = Share::of_tests_of(&["plugins/main/macvlan", "pkg/child-link", "tests/tests/netns"]);
    for index in share.of_list(&format!("hostile {owner:?} {end:?}"), ANY_LINK.len()) {
        let action = &ANY_LINK[index];
        match persistent_changes(action, owner, end) {
            Err(_) if owner == NetnsOwner::Own => refused += 1,
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) | Err(changes) => all += &format!("{}:\n{changes}\n", action.name),
        }
    }
    assert!(all.is_empty(), "{all}");
    refused
}

#[test]
fn no_change_by_a_pod_to_its_macvlan_persists() {
    assert_nothing_persists(NetnsOwner::Machines, PodEnd::DelFirst);
}

#[test]
fn no_change_by_an_ended_pod_to_its_macvlan_persists() {
    assert_nothing_persists(NetnsOwner::Machines, PodEnd::DiesFirst);
}

#[test]
fn no_change_by_a_pod_with_a_user_namespace_to_its_macvlan_persists() {
    let refused = assert_nothing_persists(NetnsOwner::Own, PodEnd::DelFirst);
    assert!(refused < 5, "the kernel refused too many actions: {refused}");
}
