//! All VFs of the lab's machine, which workers attach and detach.

use std::{thread, time::Duration};

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
    run_end::RunEnd,
};

/// The duration of a call in the emulated machine under load; calls are killed within this time.
const LIFE: Duration = Duration::from_millis(1500);

/// The number of workers. With more on the machine's only CPU, the kernel may need longer for a device than a plugin waits.
const WORKERS: usize = 4;

/// The data shared by the workers.
struct ExclusiveWorkers {
    machine: LabMachine,
    ledger: AssignedAddresses,
    tally: CallCounts,
}

/// Runs workers for this time, calls GC once, and compares the machine with its former state.
pub(crate) fn soak(time: Duration) -> CallCounts {
    let machine = LabMachine::exclusive();
    let before = machine.node.snapshot();
    let vfs = machine.vfs();
    let place =
        ExclusiveWorkers { machine, ledger: AssignedAddresses::default(), tally: CallCounts::default() };
    let end = RunEnd::after(time);
    let without_del: Vec<_> = thread::scope(|scope| {
        let place = &place;
        let shares = vfs.chunks(vfs.len().div_ceil(WORKERS)).map(|vfs| (vfs, fastrand::u64(..)));
        let workers: Vec<_> =
            shares.map(|(vfs, seed)| scope.spawn(move || run_worker(place, vfs, seed, end))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    place.tally.nothing_else_is_left(&place.machine.node.snapshot().difference(&before), &without_del);
    collect(&place, &vfs[0]);
    compare(&place, &before);
    place.tally
}

/// Attaches and detaches VFs, one after another, and returns the containers without a DEL.
fn run_worker(place: &ExclusiveWorkers, vfs: &[LabVf], seed: u64, end: RunEnd) -> Vec<String> {
    fastrand::seed(seed);
    let mut own: Vec<_> = vfs.iter().map(|vf| (vf, None)).collect();
    for round in (0..).take_while(|_| !end.has_come(&place.tally)) {
        let (vf, former) = &mut own[round % vfs.len()];
        *former = attach_and_detach(place, vf, round, former.take());
    }
    own.into_iter().filter_map(|(_, former)| Some(former?.sriov().var("CNI_CONTAINERID"))).collect()
}

/// Attaches a VF to a pod and detaches it. If the DEL is left out, the chain is returned for a late DEL.
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
    let result = attach(place, &chain, &container);
    // The late DEL of the former pod must not change this attachment.
    if let Some(former) = former {
        detach(tally, &former);
        if let Some(result) = &result {
            for answer in [chain.sriov().check_after(result), chain.rdma().check_after(result)] {
                if !answer.status.success() {
                    tally.error(format!(
                        "CHECK of {container} after a late DEL of the former pod: {answer:?}"
                    ));
                }
            }
        }
    }
    if once_in(2) {
        pod = end_namespace(tally, pod);
    }
    ledger.returned(&container);
    if once_in(5) {
        // Without its DEL, a device returns to the host only when the namespace ends.
        end_namespace(tally, pod);
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

/// Calls ADD of both plugins as a runtime does: the second only if the first succeeded.
fn attach(place: &ExclusiveWorkers, chain: &Chain, container: &str) -> Option<Value> {
    let ExclusiveWorkers { ledger, tally, .. } = place;
    let answer = tally.call("sriov ADD", || perhaps_killed(chain.sriov(), 3, LIFE).add());
    if !answer.status.success() {
        check_not_refused(tally, &answer);
        return None;
    }
    let result = answer.json();
    ledger.given(tally, &result, container);
    let rdma = chain.rdma().with("prevResult", &result);
    let answer = tally.call("rdma ADD", || perhaps_killed(&rdma, 3, LIFE).add());
    check_not_refused(tally, &answer);
    answer.status.success().then_some(result)
}

/// Records an error if an ADD was refused: each worker has its own VFs, and there are enough addresses.
fn check_not_refused(tally: &CallCounts, answer: &testkit::Answer) {
    if !answer.status.success() && !answer.was_killed() {
        tally.error(format!("an ADD was refused: {answer:?}"));
    }
}

fn end_namespace(tally: &CallCounts, pod: Option<TestPod>) -> Option<TestPod> {
    if pod.is_some() {
        tally.count("namespaces ended early");
    }
    None
}

/// Calls DEL of both plugins in reverse order, each until it succeeds. The last attempt is not killed.
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
            tally.error(format!("{what} was refused: {answer:?}"));
        }
    }
}

fn collect(place: &ExclusiveWorkers, vf: &LabVf) {
    let pod = place.machine.node.pod("collector");
    let chain = Chain::new(&place.machine, vf, &pod, json!({}));
    for call in [chain.rdma(), chain.sriov()] {
        let collect = call.with("cni.dev/valid-attachments", &json!([]));
        if !place.tally.call("GC", || collect.gc()).status.success() {
            place.tally.error("GC did not succeed".into());
        }
    }
}

fn compare(place: &ExclusiveWorkers, before: &testkit::Snapshot) {
    let difference = || place.machine.node.snapshot().difference(before);
    // The kernel is still deleting the last namespaces.
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_until("the machine is in its former state", || difference().is_empty());
    }));
    if waited.is_err() {
        place.tally.error(format!("left after GC:\n{}", difference()));
    }
}
