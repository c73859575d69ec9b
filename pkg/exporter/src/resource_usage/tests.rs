//! Whose the objects of a device are, on a node with two pods and a process outside of them.

use std::{fs, path::Path};

use rdma::resource::{
    CmId, CmIdState, CompletionQueue, Context, MemoryRegion, ProtectionDomain, QpState, SharedReceiveQueue,
};
use tempfile::TempDir;

use super::*;
use crate::families::tests::device;

/// Threads of the first pod, of the second one, and of the node, and one that has ended.
const A: u32 = 304;
const B: u32 = 305;
const NODE: u32 = 306;
const ENDED: u32 = 399;

const UIDS: [&str; 2] = ["0c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3", "1c9a5e3c-7b1f-4f0e-9d75-1f4f2bb1a2c3"];

struct UsageTest {
    root: TempDir,
    processes: Processes,
    pods: PodDirectory,
    owners: ContextOwners,
    errors: Vec<CollectError>,
}

impl UsageTest {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for (thread, cgroup) in [
            (A, format!("/kubepods/pod{}/x", UIDS[0])),
            (B, format!("/kubepods/pod{}/y", UIDS[1])),
            (NODE, "/system.slice/nfs.service".into()),
        ] {
            let process = root.path().join(format!("proc/{thread}"));
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        }
        Self {
            processes: Processes::at(root.path()),
            pods: PodDirectory::at(root.path(), Path::new("/run/silkrail")),
            owners: ContextOwners::default(),
            errors: Vec::new(),
            root,
        }
    }

    fn usage_of(&mut self, reading: &DeviceReading) -> DeviceUsage {
        HolderResolver::new(&self.processes, &self.pods, &mut self.owners, &mut self.errors)
            .usage(reading)
            .unwrap()
    }

    fn usage(&mut self, objects: DeviceResources) -> DeviceUsage {
        self.usage_of(&DeviceReading { objects: Some(Arc::new(objects)), ..device(Vec::new()) })
    }

    fn pod(&self, index: usize) -> ResourceHolder {
        ResourceHolder::Pod(self.pods.of(&UIDS[index].parse().unwrap()))
    }
}

fn process(thread: u32) -> ResourceOwner {
    if thread == ENDED { ResourceOwner::Unknown } else { ResourceOwner::Process(thread) }
}

fn pair(number: u32, domain: Option<u32>, owner: ResourceOwner) -> QueuePair {
    QueuePair {
        number,
        port: Some(1),
        kind: QpType::Rc,
        subtype: None,
        state: QpState::Rts,
        owner,
        protection_domain: domain,
        remote_number: None,
        send_psn: None,
        receive_psn: None,
    }
}

fn domain(number: u32, context: u32, thread: u32) -> ProtectionDomain {
    ProtectionDomain { number, users: None, context: Some(context), owner: process(thread) }
}

fn context(number: u32, thread: u32) -> Context {
    Context { number, owner: process(thread) }
}

fn region(length: Option<u64>, domain: Option<u32>, thread: u32) -> MemoryRegion {
    MemoryRegion { number: 0, length, protection_domain: domain, owner: process(thread) }
}

fn completion_queue(context: Option<u32>, thread: u32) -> CompletionQueue {
    CompletionQueue { number: 0, entries: None, users: None, context, owner: process(thread) }
}

fn cm_id(thread: u32) -> CmId {
    CmId {
        number: 0,
        port: None,
        state: CmIdState::Idle,
        port_space: None,
        kind: None,
        queue_pair: None,
        source: None,
        destination: None,
        owner: process(thread),
    }
}

fn share(counts: &[(&'static str, u64)], pairs: &[(&str, u64)], memory: u64) -> ResourceShare {
    let transport = pair(0, None, process(A)).transport();
    let pairs = pairs.iter().map(|(state, count)| ((transport.clone(), (*state).to_owned()), *count));
    ResourceShare { counts: counts.iter().copied().collect(), queue_pairs: pairs.collect(), memory }
}

#[test]
fn each_object_is_counted_for_the_owner_of_its_thread_and_none_of_the_kernel() {
    let mut test = UsageTest::new();
    let kernel = |kind| QueuePair { kind, ..pair(1, None, ResourceOwner::Kernel("ib_core".into())) };
    let mut err = pair(4, None, process(A));
    err.state = QpState::Err;
    let queue = SharedReceiveQueue {
        number: 0,
        kind: None,
        protection_domain: None,
        completion_queue: None,
        queue_pairs: Vec::new(),
        owner: process(B),
    };
    let objects = DeviceResources {
        queue_pairs: vec![
            kernel(QpType::Gsi),
            pair(2, None, process(A)),
            pair(3, None, process(A)),
            err,
            pair(5, None, process(NODE)),
            pair(6, None, process(A)),
        ],
        completion_queues: vec![completion_queue(None, A), completion_queue(None, B)],
        memory_regions: vec![region(Some(4096), None, A), region(None, None, A), region(Some(8192), None, A)],
        protection_domains: vec![domain(1, 1, A), domain(2, 2, B)],
        contexts: vec![context(1, A), context(2, B)],
        shared_receive_queues: vec![queue],
        cm_ids: vec![cm_id(A), cm_id(ENDED), cm_id(NODE)],
        ..DeviceResources::default()
    };
    let usage = test.usage(objects);
    let a = [("cm_id", 1), ("cq", 1), ("ctx", 1), ("mr", 3), ("pd", 1), ("qp", 4)];
    let b = [("cq", 1), ("ctx", 1), ("pd", 1), ("srq", 1)];
    let expected = [
        (test.pod(0), share(&a, &[("rts", 3), ("err", 1)], 12288)),
        (test.pod(1), share(&b, &[], 0)),
        (ResourceHolder::Node, share(&[("cm_id", 1), ("qp", 1)], &[("rts", 1)], 0)),
        (ResourceHolder::Unknown, share(&[("cm_id", 1)], &[], 0)),
    ];
    assert_eq!((usage.shares, usage.kernel_connects), (expected.into(), false));
    assert!(test.errors.is_empty(), "{:?}", test.errors);
}

#[test]
fn an_object_of_an_ended_thread_belongs_to_the_owner_of_its_context() {
    let a = |test: &UsageTest, usage: &DeviceUsage| {
        usage.shares.get(&test.pod(0)).cloned().unwrap_or_default().counts
    };
    // Each of these tells whose the context is.
    let witnesses: [fn(&mut DeviceResources); 5] = [
        |objects| objects.contexts[0].owner = process(A),
        |objects| objects.protection_domains[0].owner = process(A),
        |objects| objects.completion_queues.push(completion_queue(Some(2), A)),
        |objects| objects.memory_regions.push(region(Some(1), Some(3), A)),
        |objects| objects.queue_pairs.push(pair(18, Some(3), process(A))),
    ];
    for witness in witnesses {
        let mut test = UsageTest::new();
        let mut objects = DeviceResources {
            queue_pairs: vec![pair(17, Some(3), process(ENDED))],
            completion_queues: vec![completion_queue(Some(2), ENDED)],
            memory_regions: vec![region(Some(4096), Some(3), ENDED)],
            protection_domains: vec![domain(3, 2, ENDED), domain(4, 5, ENDED)],
            contexts: vec![context(2, ENDED), context(5, ENDED)],
            ..DeviceResources::default()
        };
        let unknown = objects.clone();
        let nobodys = test.usage(unknown.clone());
        assert_eq!(nobodys.shares.keys().collect::<Vec<_>>(), [&ResourceHolder::Unknown]);
        witness(&mut objects);
        let first = test.usage(objects.clone());
        let found = a(&test, &first);
        assert!(["qp", "cq", "mr", "pd", "ctx"].iter().all(|kind| found.contains_key(kind)), "{found:?}");
        assert_eq!(
            first.shares[&ResourceHolder::Unknown].counts,
            [("pd", 1), ("ctx", 1)].into(),
            "of another context"
        );
        // Its last thread ends.
        let later = test.usage(unknown.clone());
        assert_eq!(a(&test, &later), [("qp", 1), ("cq", 1), ("mr", 1), ("pd", 1), ("ctx", 1)].into());
        // The same number on another device is another context, and so is one that returns.
        let mut other = DeviceReading { objects: Some(Arc::new(unknown.clone())), ..device(Vec::new()) };
        other.device.index = 8;
        let usage = test.usage_of(&other);
        assert!(a(&test, &usage).is_empty());
        let gone = DeviceResources { contexts: vec![context(5, ENDED)], ..DeviceResources::default() };
        test.usage(gone);
        let usage = test.usage(unknown);
        assert!(a(&test, &usage).is_empty());
    }
}

#[test]
fn owners_of_contexts_are_forgotten_with_their_device() {
    let mut test = UsageTest::new();
    let contexts =
        |thread| DeviceResources { contexts: vec![context(2, thread)], ..DeviceResources::default() };
    test.usage(contexts(A));
    test.owners.forget(|device| device == 0);
    let usage = test.usage(contexts(ENDED));
    assert!(usage.shares.contains_key(&test.pod(0)));
    test.owners.forget(|device| device != 0);
    assert!(!test.usage(contexts(ENDED)).shares.contains_key(&test.pod(0)));
}

#[test]
fn all_traffic_belongs_to_the_only_owner_of_queue_pairs_or_else_of_contexts() {
    let mut test = UsageTest::new();
    let kernel = || pair(9, None, ResourceOwner::Kernel("nvme".into()));
    let with = |pairs: &[u32], contexts: &[u32]| DeviceResources {
        queue_pairs: pairs.iter().map(|thread| pair(*thread, None, process(*thread))).collect(),
        contexts: contexts.iter().map(|thread| context(*thread, *thread)).collect(),
        ..DeviceResources::default()
    };
    for (objects, sole) in [
        (with(&[A], &[A]), Some(0)),
        (with(&[B], &[A, B]), Some(1)),
        (with(&[A, B], &[A, B]), None),
        (with(&[A, NODE], &[A]), None),
        (with(&[NODE], &[A]), None),
        (with(&[A, ENDED], &[A]), None),
        (with(&[], &[B]), Some(1)),
        (with(&[], &[A, B]), None),
        (with(&[], &[A, NODE]), None),
        (with(&[], &[]), None),
        (DeviceResources { queue_pairs: vec![kernel()], ..with(&[], &[A]) }, None),
        (DeviceResources { queue_pairs_left_out: true, ..with(&[], &[A]) }, None),
    ] {
        let sole = sole.map(|index| test.pod(index));
        let usage = test.usage(objects.clone());
        assert_eq!(usage.sole_user().map(|pod| ResourceHolder::Pod(pod.clone())), sole, "{objects:?}");
        test.owners = ContextOwners::default();
    }
}

#[test]
fn everything_on_a_device_in_a_pods_namespace_belongs_to_the_pod() {
    let mut test = UsageTest::new();
    let pod = Arc::new(PodInfo { namespace: "ml".into(), name: "whole".into(), uid: None });
    let objects = DeviceResources {
        queue_pairs: vec![
            pair(1, None, process(ENDED)),
            pair(2, None, process(NODE)),
            pair(3, None, process(B)),
        ],
        cm_ids: vec![cm_id(ENDED)],
        ..DeviceResources::default()
    };
    let mut reading =
        DeviceReading { objects: Some(Arc::new(objects)), pod: Some(pod.clone()), ..device(Vec::new()) };
    reading.on_node = false;
    let usage = test.usage_of(&reading);
    assert_eq!(usage.shares.keys().collect::<Vec<_>>(), [&ResourceHolder::Pod(pod.clone())]);
    assert_eq!(usage.shares[&ResourceHolder::Pod(pod)].counts, [("qp", 3), ("cm_id", 1)].into());
    // In the namespace of other processes each object has its own owner.
    reading.pod = None;
    assert!(test.usage_of(&reading).shares.contains_key(&ResourceHolder::Node));
    reading.objects = None;
    let mut resolver = HolderResolver::new(&test.processes, &test.pods, &mut test.owners, &mut test.errors);
    assert_eq!(resolver.usage(&reading), None);
}

#[test]
fn the_cgroup_of_each_pod_is_noted_and_an_unreadable_process_is_one_error() {
    let mut test = UsageTest::new();
    fs::create_dir_all(test.root.path().join("proc/307/cgroup")).unwrap();
    let mut resolver = HolderResolver::new(&test.processes, &test.pods, &mut test.owners, &mut test.errors);
    let pairs = [A, 307, B, 307, NODE].map(|thread| pair(thread, None, process(thread)));
    let objects = DeviceResources { queue_pairs: pairs.into(), ..DeviceResources::default() };
    let holders = resolver.of_queue_pairs(7, &objects);
    let cgroups: Vec<_> =
        resolver.cgroups.iter().map(|(pod, text)| (pod.name.clone(), text.clone())).collect();
    let expected = [(UIDS[0], "x"), (UIDS[1], "y")]
        .map(|(uid, container)| (uid.to_owned(), format!("0::/kubepods/pod{uid}/{container}\n")));
    assert_eq!(cgroups, expected);
    assert_eq!((&holders[&A], &holders[&307]), (&test.pod(0), &ResourceHolder::Unknown));
    assert_eq!(test.errors.len(), 1, "{:?}", test.errors);
}

#[test]
fn shares_add_up() {
    let mut sum = share(&[("qp", 2)], &[("rts", 2)], 10);
    sum.add(&share(&[("qp", 1), ("mr", 4)], &[("rts", 1), ("err", 5)], 20));
    assert_eq!(sum, share(&[("qp", 3), ("mr", 4)], &[("rts", 3), ("err", 5)], 30));
}
