//! The tasks of a collection, without workers.

use std::{collections::BTreeSet, path::PathBuf};

use netns::FoundNetNs;

use super::*;
use crate::{CollectorSet, NameFilter, families::tests::device};

const POD: NetNsId = NetNsId::new(4, 4026532999);

fn ago(seconds: u64) -> Instant {
    Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn queue() -> WorkQueue {
    let options = CollectionOptions {
        number: 5,
        node: Sysfs::at(PathBuf::from("/nonexistent")),
        host: Arc::new(NetNs::current().unwrap()),
        collectors: CollectorSet::default(),
        devices: NameFilter::default(),
        timeout: Duration::from_secs(600),
        gids: GidPlan { before: ago(900), at_once: BTreeSet::from(["mlx5_1".to_owned()]) },
        files: OpenFileBudget::new(0),
        listed: ListedObjects::new(Duration::ZERO),
        listed_before: Instant::now(),
        physical: PhysicalStates::new(Duration::ZERO),
        workers: 1,
    };
    let (tasks, done) = (Condvar::new(), Condvar::new());
    WorkQueue { options, pending: PendingRequests::default(), state: Mutex::default(), tasks, done }
}

fn of_host(queue: &WorkQueue) -> Arc<NetnsTarget> {
    Arc::new(NetnsTarget::node(&queue.options.host, &queue.options.node))
}

fn of_pod() -> Arc<NetnsTarget> {
    let found = FoundNetNs { id: POD, path: "/run/netns/a".into(), pid: None };
    Arc::new(NetnsTarget::found(&found, None, None))
}

/// A device with an index and a name.
fn named(index: u32, name: &str) -> rdma::Device {
    rdma::Device { index, name: name.into(), ..device(Vec::new()).device }
}

impl WorkQueue {
    /// Notes an operation that was abandoned in the last collection.
    fn is_blocked(&self, id: u64, place: NetNsId, device: Option<u32>, stage: Collector, seconds: u64) {
        let request = PendingRequest { place, device, stage, since: ago(seconds) };
        self.pending.lock().unwrap().insert((4, id), request);
    }

    /// Returns the names of the devices to read.
    fn queued(&self) -> Vec<String> {
        let name = |(_, task): &(Arc<NetnsTarget>, CollectionTask)| match task {
            CollectionTask::List => "list".to_owned(),
            CollectionTask::Read(task, _) => task.device.name.clone(),
        };
        self.lock().tasks.iter().map(name).collect()
    }

    fn enqueue(&self, place: &Arc<NetnsTarget>, devices: Vec<rdma::Device>) {
        self.enqueue_devices(&mut self.lock(), place, devices);
    }
}

fn progress(stage: Collector, began: Instant) -> Option<Arc<Mutex<ReadProgress>>> {
    let progress = ReadProgress {
        stage,
        stage_began: began,
        reading: Some(device(Vec::new())),
        errors: vec![CollectError::timed_out(Collector::Gids, "before", Duration::ZERO)],
        spent: CollectorTimes::default(),
    };
    Some(Arc::new(Mutex::new(progress)))
}

#[test]
fn only_the_blocked_stage_of_the_same_device_in_the_same_place_is_left_out() {
    let queue = queue();
    queue.is_blocked(1, POD, Some(7), Collector::HwCounters, 3);
    queue.is_blocked(2, POD, Some(8), Collector::Gids, 3);
    queue.is_blocked(3, queue.options.host.id(), Some(7), Collector::Ports, 3);
    queue.is_blocked(4, POD, None, Collector::Devices, 3);
    queue.is_blocked(5, POD, Some(7), Collector::Resources, HUNG_AFTER.as_secs() - 30);
    let mut errors = Vec::new();
    let (stages, running) = queue.responsive_stages((POD, 7), "mlx5_7", &mut errors);
    let blocked: Vec<_> = CollectorSet::default().iter().filter(|stage| !stages.has(*stage)).collect();
    assert_eq!(blocked, [Collector::HwCounters, Collector::Resources]);
    assert_eq!(running, [Collector::Resources], "its last reading is used, and it is no failure yet");
    assert!(matches!(&errors[..], [one] if one.collector == Collector::HwCounters), "{errors:?}");
    queue.is_blocked(5, POD, Some(7), Collector::Resources, HUNG_AFTER.as_secs() + 1);
    errors.clear();
    assert!(queue.responsive_stages((POD, 7), "mlx5_7", &mut errors).1.is_empty());
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn a_namespace_whose_devices_could_not_be_listed_does_not_delay_others() {
    let queue = queue();
    queue.is_blocked(1, POD, None, Collector::Devices, 3);
    queue.is_blocked(2, queue.options.host.id(), Some(7), Collector::Devices, 3);
    queue.enqueue_all(vec![of_pod(), of_host(&queue)], HashMap::new());
    let state = queue.lock();
    let places: Vec<_> = state.tasks.iter().map(|(place, _)| place.id).collect();
    assert_eq!(places, [queue.options.host.id()]);
    assert!(matches!(&state.output.errors[..], [one] if one.reason == crate::ErrorReason::Timeout));
}

#[test]
fn every_wanted_device_is_read_except_one_whose_files_hang() {
    let mut queue = queue();
    queue.options.devices.exclude = vec!["rxe*".into()];
    let host = of_host(&queue);
    queue.is_blocked(1, host.id, Some(1), Collector::Devices, 3);
    let names = ["rxe0", "mlx5_0", "mlx5_1", "mlx5_2"];
    queue.enqueue(&host, (0..).zip(names).map(|(index, name)| named(index, name)).collect());
    assert_eq!(queue.queued(), ["mlx5_1", "mlx5_2"]);
    let state = queue.lock();
    let gids_before = state.tasks.iter().map(|(_, task)| match task {
        CollectionTask::Read(task, _) => task.gids_before,
        CollectionTask::List => panic!("{task:?}"),
    });
    let gids_before: Vec<_> = gids_before.collect();
    assert!(gids_before[0] > queue.options.gids.before, "a pod was attached to its device");
    assert_eq!(gids_before[1], queue.options.gids.before);
}

#[test]
fn a_pod_cannot_make_the_daemon_read_any_number_of_devices() {
    let devices = || (0..200).map(|index| named(index, &format!("rxe{index}"))).collect();
    let queue = queue();
    queue.enqueue(&of_pod(), devices());
    assert_eq!(queue.queued().len(), MAX_DEVICES_PER_POD);
    queue.lock().tasks.clear();
    queue.enqueue(&of_host(&queue), devices());
    assert_eq!(queue.queued().len(), 200, "those of the host are the operator's");
}

#[test]
fn a_worker_stays_in_its_namespace_while_there_are_tasks_and_ends_without_tasks() {
    let queue = queue();
    let host = of_host(&queue);
    queue.enqueue(&host, vec![named(0, "mlx5_0"), named(1, "mlx5_1")]);
    queue.enqueue(&of_pod(), vec![named(2, "mlx5_2")]);
    let mut take = |at| {
        let (id, place, _) = queue.take(at)?;
        assert!(queue.complete_task(id, |_| ()));
        Some(place.id)
    };
    let taken = [Some(POD), Some(POD), None, None].map(&mut take);
    assert_eq!(taken, [Some(POD), Some(host.id), Some(host.id), None]);
    assert!(queue.lock().running.is_empty());
}

#[test]
fn a_collection_waits_for_a_costly_reading_for_a_shorter_time() {
    let timeout = Duration::from_secs(2);
    let since = ago(1);
    let deadline = |progress| {
        let running = RunningTask { since, place: of_pod(), device: None, progress };
        running.deadline(timeout)
    };
    let began = ago(0);
    assert_eq!(deadline(None), since + timeout);
    assert_eq!(deadline(progress(Collector::HwCounters, began)), since + timeout);
    for costly in [Collector::Resources, Collector::Physical] {
        assert_eq!(deadline(progress(costly, began)), began + COSTLY_TIMEOUT);
        assert_eq!(deadline(progress(costly, began + timeout)), since + timeout);
    }
}

#[test]
fn an_abandoned_task_keeps_its_values_and_blocks_its_stage_until_it_ends() {
    for (stage, errors) in [(Collector::HwCounters, 2), (Collector::Physical, 1)] {
        let queue = queue();
        let host = of_host(&queue);
        queue.enqueue(&host, vec![named(7, "mlx5_7"), named(8, "mlx5_8")]);
        let (overdue, ..) = queue.take(None).unwrap();
        let (punctual, ..) = queue.take(None).unwrap();
        let mut state = queue.lock();
        let running = state.running.get_mut(&overdue).unwrap();
        (running.since, running.progress) = (ago(700), progress(stage, ago(700)));
        assert_eq!(queue.abandon_overdue(&mut state), 1);
        assert_eq!(queue.abandon_overdue(&mut state), 0, "once");
        assert_eq!((state.output.readings.len(), state.output.errors.len()), (1, errors), "{stage}");
        drop(state);
        let stages = || queue.responsive_stages((host.id, 7), "mlx5_7", &mut Vec::new()).0;
        assert!(!stages().has(stage));
        assert!(queue.complete_task(punctual, |state| state.output.errors.clear()));
        assert!(queue.lock().output.errors.is_empty());
        assert!(!queue.complete_task(overdue, |_| panic!("the collection has taken its values")));
        assert!(stages().has(stage), "it is available again");
    }
}

#[test]
fn a_task_that_hangs_before_its_files_are_open_blocks_the_device() {
    let queue = queue();
    let host = of_host(&queue);
    queue.lock().tasks.push_back((host.clone(), CollectionTask::List));
    let (listing, ..) = queue.take(None).unwrap();
    queue.enqueue(&host, vec![named(7, "mlx5_7")]);
    let (reading, ..) = queue.take(None).unwrap();
    let mut state = queue.lock();
    for id in [listing, reading] {
        state.running.get_mut(&id).unwrap().since = ago(700);
    }
    assert_eq!(queue.abandon_overdue(&mut state), 2);
    let what: Vec<_> =
        state.output.errors.iter().map(|error| (error.collector, error.what.clone())).collect();
    assert!(what.iter().all(|(collector, _)| *collector == Collector::Devices), "{what:?}");
    assert!(what[0].1.contains(&host.id.to_string()) && what[1].1.contains("RDMA device mlx5_7"), "{what:?}");
    drop(state);
    assert!(queue.unanswered(host.id).is_some() && queue.unanswered(POD).is_none());
    queue.enqueue(&host, vec![named(7, "mlx5_7"), named(8, "mlx5_8")]);
    assert_eq!(queue.queued(), ["mlx5_8"]);
}

#[test]
fn devices_of_the_host_come_first_and_are_sorted_by_name() {
    let queue = queue();
    let reading =
        |name: &str, on_node| DeviceReading { device: named(0, name), on_node, ..device(Vec::new()) };
    let readings = [
        reading("mlx5_0", false),
        reading("mlx5_3", true),
        reading("mlx5_2", false),
        reading("mlx5_1", true),
    ];
    queue.lock().output.readings = readings.into();
    let sorted = Arc::new(queue).run().readings;
    let names: Vec<_> = sorted.iter().map(|reading| &*reading.device.name).collect();
    assert_eq!(names, ["mlx5_1", "mlx5_3", "mlx5_0", "mlx5_2"]);
}
