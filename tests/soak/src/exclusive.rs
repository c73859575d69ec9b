//! All VFs of the lab's machine, each attached and detached by a worker of its own.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use silkrail_tests::{
    chain::Chain,
    machine::{LabMachine, LabVf},
};
use testkit::{Call, TestPod, wait_until};

use crate::{
    address_ledger::AssignedAddresses,
    counts::CallCounts,
    random_work::{once_in, perhaps_killed},
};

/// How long a call lives in the emulated machine, with others beside it.
const LIFE: Duration = Duration::from_millis(1500);

/// What the workers share.
struct ExclusiveWorkers {
    machine: LabMachine,
    ledger: AssignedAddresses,
    tally: CallCounts,
}

/// Has a worker for each VF call until `end`, collects once, and compares.
pub(crate) fn soak(end: Instant) -> CallCounts {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vfs = machine.vfs();
    let place =
        ExclusiveWorkers { machine, ledger: AssignedAddresses::default(), tally: CallCounts::default() };
    let without_del: Vec<_> = thread::scope(|scope| {
        let place = &place;
        let attach_and_detach = |vf| {
            let seed = fastrand::u64(..);
            scope.spawn(move || {
                fastrand::seed(seed);
                let mut former = None;
                for round in (0..).take_while(|_| Instant::now() < end) {
                    former = attach_and_detach(place, vf, round, former);
                }
                former.map(|chain| chain.sriov().var("CNI_CONTAINERID"))
            })
        };
        let workers: Vec<_> = vfs.iter().map(attach_and_detach).collect();
        workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect()
    });
    place.tally.nothing_else_is_left(&place.machine.node.snapshot().difference(&before), &without_del);
    collect(&place, &vfs[0]);
    compare(&place, &before);
    place.tally
}

/// A pod gets the VF and loses it. Its DEL may be left out; then it is returned, to come late.
fn attach_and_detach(
    place: &ExclusiveWorkers,
    vf: &LabVf,
    round: usize,
    former: Option<Chain>,
) -> Option<Chain> {
    let ExclusiveWorkers { machine, ledger, tally } = place;
    let container = format!("{}-{}-{round}", vf.pf, vf.index);
    let mut pod = Some(machine.node.pod(&container));
    let chain = Chain::new(machine, vf, pod.as_ref().unwrap(), settings()).container(&container);
    let whole = attach(place, &chain, &container);
    // The former pod's DEL comes late and must not touch this one.
    if let Some(former) = former {
        detach(tally, &former);
        if let Some(result) = &whole {
            for answer in [chain.sriov().check_after(result), chain.rdma().check_after(result)] {
                if !answer.status.success() {
                    tally.wrong(format!("after another's late DEL, {container}: {answer:?}"));
                }
            }
        }
    }
    if once_in(2) {
        pod = end(tally, pod);
    }
    ledger.returned(&container);
    if once_in(5) {
        // Without its DEL, a device returns to the host only when the namespace ends.
        end(tally, pod);
        return Some(chain);
    }
    detach(tally, &chain);
    drop(pod);
    None
}

fn settings() -> Value {
    let pool = json!({"name": "soak", "subnet": "172.81.0.0/16", "ips": ["172.81.0.10-172.81.0.200"]});
    let mut settings = json!({"ipam": {"type": "silkrail-ipam", "pools": [pool]}});
    if once_in(2) {
        settings["vlan"] = fastrand::u16(2..4000).into();
        settings["trust"] = "on".into();
        settings["mtu"] = 1400.into();
    }
    settings
}

/// ADD of both plugins, as a runtime does: the second only if the first succeeded.
fn attach(place: &ExclusiveWorkers, chain: &Chain, container: &str) -> Option<Value> {
    let ExclusiveWorkers { ledger, tally, .. } = place;
    let answer = tally.call("sriov ADD", || perhaps_killed(chain.sriov(), 3, LIFE).add());
    if !answer.status.success() {
        not_refused(tally, &answer);
        return None;
    }
    let result = answer.json();
    ledger.given(tally, &result, container);
    let rdma = chain.rdma().with("prevResult", &result);
    let answer = tally.call("rdma ADD", || perhaps_killed(&rdma, 3, LIFE).add());
    not_refused(tally, &answer);
    answer.status.success().then_some(result)
}

/// Each worker has its VF for itself, and enough addresses for all.
fn not_refused(tally: &CallCounts, answer: &testkit::Answer) {
    if !answer.status.success() && !answer.was_killed() {
        tally.wrong(format!("an ADD was refused: {answer:?}"));
    }
}

fn end(tally: &CallCounts, pod: Option<TestPod>) -> Option<TestPod> {
    if pod.is_some() {
        tally.count("namespaces ended early");
    }
    None
}

/// DEL of both, the last first, each again until it succeeds. The last one is not killed.
fn detach(tally: &CallCounts, chain: &Chain) {
    detach_one(tally, "rdma DEL", chain.rdma());
    detach_one(tally, "sriov DEL", chain.sriov());
}

fn detach_one(tally: &CallCounts, what: &'static str, call: &Call) {
    for one_in in [3, 3, 3, 3, 3, 0] {
        let answer = tally.call(what, || perhaps_killed(call, one_in, LIFE).del());
        if answer.status.success() {
            return;
        }
        if !answer.was_killed() {
            tally.wrong(format!("{what} was refused: {answer:?}"));
        }
    }
}

fn collect(place: &ExclusiveWorkers, vf: &LabVf) {
    let pod = place.machine.node.pod("collector");
    let chain = Chain::new(&place.machine, vf, &pod, json!({}));
    for call in [chain.rdma(), chain.sriov()] {
        let collect = call.with("cni.dev/valid-attachments", &json!([]));
        if !place.tally.call("GC", || collect.gc()).status.success() {
            place.tally.wrong("GC did not succeed".into());
        }
    }
}

fn compare(place: &ExclusiveWorkers, before: &testkit::Snapshot) {
    let difference = || place.machine.node.snapshot().difference(before);
    // The last namespaces are still dying.
    let calm = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until("the machine is as before", || difference().is_empty());
    }));
    if calm.is_err() {
        place.tally.wrong(format!("this is left:\n{}", difference()));
    }
}
