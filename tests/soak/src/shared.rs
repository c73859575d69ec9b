//! macvlan links and addresses, in pods that several share, from pools that overlap.

use std::{
    sync::RwLock,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use silkrail_tests::rail::{RailNode, pool};
use testkit::{Call, Observe, TestPod};

use crate::{
    address_ledger::AssignedAddresses,
    counts::CallCounts,
    random_work::{once_in, perhaps_killed},
};

const PODS: usize = 8;

/// How long a call lives on a busy machine: kills come within that time.
const LIFE: Duration = Duration::from_millis(60);

/// Why an ADD may be refused here: its pod has ended (4, 8), or every address is taken (101).
const EXPECTED: [u64; 3] = [4, 8, 101];

/// What the workers share.
struct SharedWorkers {
    rail: RailNode,
    /// `None` while a new one is created.
    pods: Vec<RwLock<Option<TestPod>>>,
    ledger: AssignedAddresses,
    tally: CallCounts,
}

/// Has this number of workers call until `end`, collects once, and compares.
pub(crate) fn soak(workers: usize, end: Instant) -> CallCounts {
    let rail = RailNode::new();
    let pods = (0..PODS).map(|n| RwLock::new(Some(rail.node.pod(&pod_name(n))))).collect();
    let before = rail.node.snapshot();
    let place =
        SharedWorkers { rail, pods, ledger: AssignedAddresses::default(), tally: CallCounts::default() };
    let without_del = thread::scope(|scope| {
        let place = &place;
        let attach_and_detach = |worker| {
            let seed = fastrand::u64(..);
            scope.spawn(move || {
                fastrand::seed(seed);
                let mut former = None;
                for round in (0..).take_while(|_| Instant::now() < end) {
                    former = attach_and_detach(place, worker, round, former);
                }
                former.map(|call| call.var("CNI_CONTAINERID"))
            })
        };
        let workers: Vec<_> = (0..workers).map(attach_and_detach).collect();
        scope.spawn(move || {
            while Instant::now() < end {
                thread::sleep(Duration::from_millis(700));
                end_one_pod(place);
                look_for_duplicates(place);
            }
        });
        workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    place.tally.nothing_else_is_left(&place.rail.node.snapshot().difference(&before), &without_del);
    for call in [place.rail.macvlan(&conf(0)), place.rail.ipam(&conf(0)["ipam"])] {
        let collect = call.with("cni.dev/valid-attachments", &json!([]));
        if !place.tally.call("GC", || collect.gc()).status.success() {
            place.tally.wrong("GC did not succeed".into());
        }
    }
    let difference = place.rail.node.snapshot().difference(&before);
    if !difference.is_empty() {
        place.tally.wrong(format!("this is left:\n{difference}"));
    }
    place.tally
}

fn pod_name(n: usize) -> String {
    format!("pod{n}")
}

/// Two pools, half of each the other's too, with fewer addresses than workers.
fn conf(first: usize) -> Value {
    let mut pools = [pool("lower", &["10.7.0.10-10.7.0.49"]), pool("upper", &["10.7.0.30-10.7.0.69"])];
    pools.rotate_left(first);
    // A pod has one default route; here it has many interfaces.
    json!({"ipam": {"type": "silkrail-ipam", "clean_gateway": true, "pools": pools}})
}

/// A pod gets an interface or an address and loses it. Its DEL may be left out; then it is returned, to come late.
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
        tally.wrong(format!("ADD was refused: {answer:?}"));
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

/// DEL, and again until it succeeds, as a runtime does. The last one is not killed.
fn detach(tally: &CallCounts, call: &Call) {
    for one_in in [3, 3, 3, 3, 3, 0] {
        let answer = tally.call("DEL", || perhaps_killed(call, one_in, LIFE).del());
        if answer.status.success() {
            return;
        }
        if !answer.was_killed() {
            tally.wrong(format!("DEL was refused: {answer:?}"));
        }
    }
}

/// Ends a pod's namespace, whatever is going on in it, and makes another under its path.
fn end_one_pod(place: &SharedWorkers) {
    let n = fastrand::usize(..PODS);
    let mut pod = place.pods[n].write().unwrap();
    *pod = None;
    *pod = Some(place.rail.node.pod(&pod_name(n)));
    place.tally.count("namespaces ended early");
}

/// Whether two links have one address at one moment. What was seen first must still be there at the end, or it was
/// released and allocated again meanwhile.
fn look_for_duplicates(place: &SharedWorkers) {
    let seen: Vec<(usize, String, String)> = (0..PODS).flat_map(|n| seen_in(place, n)).collect();
    for (at, (pod, link, address)) in seen.iter().enumerate() {
        let Some(other) = seen[at + 1..].iter().find(|(_, _, is)| is == address) else { continue };
        if seen_in(place, *pod).iter().any(|(_, is, has)| is == link && has == address) {
            place
                .tally
                .wrong(format!("{address} is on {link} in pod {pod} and on {} in pod {}", other.1, other.0));
        }
    }
    place.tally.count("looks at every pod");
}

fn seen_in(place: &SharedWorkers, n: usize) -> Vec<(usize, String, String)> {
    let pod = place.pods[n].read().unwrap();
    let Some(pod) = pod.as_ref() else { return Vec::new() };
    let mut seen = Vec::new();
    for link in pod.ip("-4 address show") {
        for info in link["addr_info"].as_array().into_iter().flatten() {
            if info["scope"] == "global" {
                // The same name with another index is another link.
                let name = format!("{} ({})", link["ifname"].as_str().unwrap_or_default(), link["ifindex"]);
                seen.push((n, name, info["local"].to_string()));
            }
        }
    }
    seen
}
