//! Pods that do to their macvlan whatever the kernel lets them.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde_json::json;
use testkit::{Observe, wait_until};

use silkrail_tests::{
    hostile::{ANY_LINK, HostileAction, NetnsOwner, PodEnd},
    rail::RailNode,
};

/// The hardware address that answers when the switch asks for an IPv4 address.
fn who_answers(rail: &RailNode, address: &str) -> Option<String> {
    rail.switch.set_sysctl("net/ipv4/neigh/port0/retrans_time_ms", "50");
    rail.switch.run_ip("address add 10.7.255.1/16 dev port0");
    let ask = format!(
        "socket(S, 2, 2, 0); send(S, q(x), 0, pack(q(Sna4x8), 2, 9, pack(q(C4), {})))",
        address.replace('.', ",")
    );
    rail.switch.run("perl", &["-e", &ask]);
    let entry = || rail.switch.ip(&format!("neigh show {address}")).into_iter().next().unwrap();
    wait_until("the address is known or nobody's", || entry()["state"] != json!(["INCOMPLETE"]));
    let answer = entry()["lladdr"].as_str().map(str::to_owned);
    rail.switch.run_ip("address del 10.7.255.1/16 dev port0");
    answer
}

/// Plays one trick, and returns what it changed for the node or the next pod.
fn lasting(trick: &HostileAction, whose: NetnsOwner, end: PodEnd) -> Result<String, String> {
    let rail = RailNode::new();
    let before = rail.node.snapshot();
    let pod = match whose {
        NetnsOwner::Machines => rail.node.pod("hostile"),
        NetnsOwner::Own => rail.node.pod_in_a_user_namespace("hostile"),
    };
    let call = rail.macvlan(&json!({})).pod(&pod);
    call.add().ok();
    let played = trick.play(&pod, "")?;
    let mut wrong = String::new();
    let mut deleted = || {
        let answer = call.del();
        if !answer.status.success() {
            let _ = writeln!(wrong, "  DEL: {}", answer.stdout);
        }
    };
    match end {
        PodEnd::DelFirst => {
            deleted();
            // Its address is the next pod's from now on.
            if let Some(mac) = who_answers(&rail, "10.7.0.10") {
                let _ = writeln!(wrong, "  {mac} still answers to the address");
            }
            drop(played);
            drop(pod);
        }
        PodEnd::DiesFirst => {
            drop(played);
            pod.end();
            deleted();
        }
    }
    // The kernel takes the links of a dead namespace away in the background.
    let deadline = Instant::now() + Duration::from_secs(10);
    let difference = loop {
        let difference = rail.node.snapshot().difference(&before);
        if difference.is_empty() || Instant::now() >= deadline {
            break difference;
        }
    };
    wrong += &difference;
    let next = rail.macvlan(&json!({})).container("next");
    let result = next.add();
    if result.status.success() {
        next.check_after(&result.ok()).done();
        next.del().done();
    } else {
        let _ = writeln!(wrong, "  the next ADD: {}", result.stdout);
    }
    Ok(wrong)
}

/// Plays all, and returns how many the kernel did not let the pod play.
fn nothing_lasts(whose: NetnsOwner, end: PodEnd) -> usize {
    let (mut all, mut refused) = (String::new(), 0);
    for trick in ANY_LINK {
        match lasting(trick, whose, end) {
            Err(_) if whose == NetnsOwner::Own => refused += 1,
            Ok(wrong) if wrong.is_empty() => {}
            Ok(wrong) | Err(wrong) => all += &format!("{}:\n{wrong}\n", trick.name),
        }
    }
    assert!(all.is_empty(), "{all}");
    refused
}

#[test]
fn no_change_by_a_pod_to_its_macvlan_persists() {
    nothing_lasts(NetnsOwner::Machines, PodEnd::DelFirst);
}

#[test]
fn no_change_by_an_ended_pod_to_its_macvlan_persists() {
    nothing_lasts(NetnsOwner::Machines, PodEnd::DiesFirst);
}

#[test]
fn no_change_by_a_pod_with_a_user_namespace_to_its_macvlan_persists() {
    let refused = nothing_lasts(NetnsOwner::Own, PodEnd::DelFirst);
    assert!(refused < 5, "the kernel let it do too little: {refused}");
}
