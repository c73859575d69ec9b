//! macvlan links and addresses, in pods that several share, from pools that overlap.

use std::{sync::RwLock, thread, time::Duration};

use serde_json::{Value, json};
use silkrail_tests::rail::{RailNode, pool};
use testkit::{Call, Observe, TestPod};

use crate::{
    address_ledger::AssignedAddresses,
    counts::CallCounts,
    random_work::{once_in, perhaps_killed},
    run_end::RunEnd,
};

const PODS: usize = 8;

/// The duration of a call on a busy machine; calls are killed within this time.
const LIFE: Duration = Duration::from_millis(60);

/// Codes with which an ADD may be refused here: its pod has ended (4, 8), or every address is allocated (101).
const EXPECTED: [u64; 3] = [4, 8, 101];

/// The data shared by the workers.
struct SharedWorkers {
    rail: RailNode,
    /// `None` while a pod is created again.
    pods: Vec<RwLock<Option<TestPod>>>,
    ledger: AssignedAddresses,
    tally: CallCounts,
}

/// Runs this number of workers for this time, calls GC once, and compares the node with its former state.
pub(crate) fn soak(workers: usize, time: Duration) -> CallCounts {
    let rail = RailNode::new().with_every_process();
    let pods = (0..PODS).map(|n| RwLock::new(Some(rail.node.pod(&pod_name(n))))).collect();
    let before = rail.node.snapshot();
    let place =
        SharedWorkers { rail, pods, ledger: AssignedAddresses::default(), tally: CallCounts::default() };
    let end = RunEnd::after(time);
    let without_del = thread::scope(|scope| {
        let place = &place;
        let attach_and_detach = |worker| {
            let seed = fastrand::u64(..);
            scope.spawn(move || {
                fastrand::seed(seed);
                let mut former = None;
                for round in (0..).take_while(|_| !end.has_come(&place.tally)) {
                    former = attach_and_detach(place, worker, round, former);
                }
                former.map(|call| call.var("CNI_CONTAINERID"))
            })
        };
        let workers: Vec<_> = (0..workers).map(attach_and_detach).collect();
        scope.spawn(move || {
            while !end.has_come(&place.tally) {
                thread::sleep(Duration::from_millis(700));
                end_pod(place, fastrand::usize(..PODS));
                check_for_duplicates(place);
            }
        });
        workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    place.tally.nothing_else_is_left(&place.rail.node.snapshot().difference(&before), &without_del);
    // GC keeps what pods have that exist.
    (0..PODS).for_each(|n| end_pod(&place, n));
    for call in [place.rail.macvlan(&conf(0)), place.rail.ipam(&conf(0)["ipam"])] {
        let collect = call.with("cni.dev/valid-attachments", &json!([]));
        if !place.tally.call("GC", || collect.gc()).status.success() {
            place.tally.error("GC did not succeed".into());
        }
    }
    let difference = place.rail.node.snapshot().difference(&before);
    if !difference.is_empty() {
        place.tally.error(format!("left after GC:\n{difference}"));
    }
    place.tally
}

fn pod_name(n: usize) -> String {
    format!("pod{n}")
}

/// Returns a configuration with two pools that overlap by half, with fewer addresses than workers.
fn conf(first: usize) -> Value {
    let mut pools = [pool("lower", &["10.7.0.10-10.7.0.49"]), pool("upper", &["10.7.0.30-10.7.0.69"])];
    pools.rotate_left(first);
    // A pod has one default route; here it has many interfaces.
    json!({"ipam": {"type": "silkrail-ipam", "clean_gateway": true, "pools": pools}})
}

/// Attaches an interface or an address and detaches it. If the DEL is left out, the call is returned for a late DEL.
fn attach_and_detach(
    place: &SharedWorkers,
    worker: usize,
    round: usize,
    former: Option<Call>,
) -> Option<Call> {
    let SharedWorkers { rail, pods, ledger, tally } = place;
    let (container, ifname) = (format!("w{worker}-{round}"), format!("w{worker}x{}", round % 3));
    let conf = conf(fastrand::usize(..2));
    let call = if once_in(4) { rail.ipam(&conf["ipam"]) } else { rail.macvlan(&conf) };
    let pod = &pods[fastrand::usize(..PODS)];
    let path = pod.read().unwrap().as_ref().map(|pod| pod.path().to_owned()).unwrap_or_default();
    let call = call.env("CNI_NETNS", path).container(&container).ifname(&ifname);
    let answer = tally.call("ADD", || perhaps_killed(&call, 3, LIFE).add());
    if answer.status.success() {
        ledger.given(tally, &answer.json(), &container);
    } else if !answer.was_killed() && !EXPECTED.contains(&answer.refusal().code) {
        tally.error(format!("ADD was refused: {answer:?}"));
    }
    if once_in(3) {
        thread::sleep(Duration::from_millis(fastrand::u64(..200)));
    }
    if let Some(former) = former {
        detach(tally, &former);
    }
    ledger.returned(&container);
    if once_in(5) {
        return Some(call);
    }
    detach(tally, &call);
    None
}

/// Calls DEL until it succeeds, as a runtime does. The last attempt is not killed.
fn detach(tally: &CallCounts, call: &Call) {
    for one_in in [3, 3, 3, 3, 3, 0] {
        let answer = tally.call("DEL", || perhaps_killed(call, one_in, LIFE).del());
        if answer.status.success() {
            return;
        }
        if !answer.was_killed() {
            tally.error(format!("DEL was refused: {answer:?}"));
        }
    }
}

/// Deletes a pod's namespace, regardless of running calls, and creates another at the same path.
fn end_pod(place: &SharedWorkers, n: usize) {
    let mut pod = place.pods[n].write().unwrap();
    *pod = None;
    *pod = Some(place.rail.node.pod(&pod_name(n)));
    place.tally.count("namespaces ended early");
}

/// Records an error if two links have the same address at the same time. The first link is read again at the end, since its
/// address may have been released and allocated in between.
fn check_for_duplicates(place: &SharedWorkers) {
    let seen: Vec<(usize, String, String)> = (0..PODS).flat_map(|n| addresses_in(place, n)).collect();
    for (at, (pod, link, address)) in seen.iter().enumerate() {
        let Some(other) = seen[at + 1..].iter().find(|(_, _, is)| is == address) else { continue };
        if addresses_in(place, *pod).iter().any(|(_, is, has)| is == link && has == address) {
            place
                .tally
                .error(format!("{address} is on {link} in pod {pod} and on {} in pod {}", other.1, other.0));
        }
    }
    place.tally.count("checks of every pod");
}

/// Returns the pod, the link and the address of each global IPv4 address in a pod.
fn addresses_in(place: &SharedWorkers, n: usize) -> Vec<(usize, String, String)> {
    let pod = place.pods[n].read().unwrap();
    let Some(pod) = pod.as_ref() else { return Vec::new() };
    let mut seen = Vec::new();
    for link in pod.ip("-4 address show") {
        for info in link["addr_info"].as_array().into_iter().flatten() {
            if info["scope"] == "global" {
                // A link with the same name and another index is a different link.
                let name = format!("{} ({})", link["ifname"].as_str().unwrap_or_default(), link["ifindex"]);
                seen.push((n, name, info["local"].to_string()));
            }
        }
    }
    seen
}
