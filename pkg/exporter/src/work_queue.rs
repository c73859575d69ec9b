//! The work queue of a collection, for several worker threads.
//!
//! Hung firmware blocks the calling thread in a system call for an unlimited time. Therefore workers take devices from a
//! queue, and the collection waits for each only until a timeout. Then it takes the values that the worker has read so
//! far, and starts another worker. The blocked stage is not run again for this device until the system call returns.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use netns::{NetNs, NetNsId};
use sysfs::Sysfs;

use crate::{
    CollectError, Collector, DeviceReading,
    collector_set::CollectorTimes,
    costly_readings::{COSTLY_TIMEOUT, DeviceKey, HUNG_AFTER, ListedObjects, PhysicalStates},
    counter_files::OpenFileBudget,
    gid_schedule::GidPlan,
    netns_sockets::NetnsSockets,
    netns_target::NetnsTarget,
    reader::{DeviceReader, DeviceTask, ReadProgress},
};

/// Whether the last reading of a stage is used while a new one takes long.
fn is_costly(stage: Collector) -> bool {
    matches!(stage, Collector::Resources | Collector::Physical)
}

/// Operations that timed out and have not returned, by collection number and task ID.
pub(crate) type PendingRequests = Arc<Mutex<HashMap<(u64, u64), PendingRequest>>>;

/// An operation that timed out and has not returned.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    place: NetNsId,
    /// The index of the device; `None` for listing the devices of the namespace.
    device: Option<u32>,
    stage: Collector,
    since: Instant,
}

/// The options of a collection.
#[derive(Debug, Clone)]
pub(crate) struct CollectionOptions {
    /// The sequence number of the collection.
    pub(crate) number: u64,
    /// The sysfs of the host.
    pub(crate) node: Sysfs,
    /// The host namespace, in which the workers run.
    pub(crate) host: Arc<NetNs>,
    /// The collectors that run.
    pub(crate) collectors: crate::CollectorSet,
    /// The devices that are read.
    pub(crate) devices: crate::NameFilter,
    /// The timeout for reading one device.
    pub(crate) timeout: Duration,
    /// The GID tables that are read again.
    pub(crate) gids: GidPlan,
    /// The budget of files that can be kept open.
    pub(crate) files: OpenFileBudget,
    /// The objects of devices that were listed last.
    pub(crate) listed: ListedObjects,
    /// Objects that were listed before this time are listed again.
    pub(crate) listed_before: Instant,
    /// The physical states of ports that were read last.
    pub(crate) physical: PhysicalStates,
    /// The number of workers.
    pub(crate) workers: usize,
}

/// The maximum number of devices that are read in a pod's namespace, where a pod can create any number of software devices.
const MAX_DEVICES_PER_POD: usize = 64;

/// The result of a collection.
#[derive(Debug, Default)]
pub(crate) struct CollectionOutput {
    pub(crate) readings: Vec<DeviceReading>,
    pub(crate) readers: HashMap<DeviceKey, DeviceReader>,
    pub(crate) errors: Vec<CollectError>,
    pub(crate) spent: CollectorTimes,
}

#[derive(Debug)]
enum CollectionTask {
    /// List the devices of the namespace.
    List,
    /// Read one device.
    Read(Box<DeviceTask>, Option<DeviceReader>),
}

#[derive(Debug)]
struct RunningTask {
    since: Instant,
    place: Arc<NetnsTarget>,
    /// The index and name of the device; `None` for [`CollectionTask::List`], which can add more tasks.
    device: Option<(u32, String)>,
    /// The progress, after the device's files are open.
    progress: Option<Arc<Mutex<ReadProgress>>>,
}

impl RunningTask {
    /// Returns the time when the collection no longer waits for it.
    fn deadline(&self, timeout: Duration) -> Instant {
        let limit = self.since + timeout;
        let Some(progress) = &self.progress else { return limit };
        let progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        match progress.stage {
            stage if is_costly(stage) => limit.min(progress.stage_began + COSTLY_TIMEOUT),
            _ => limit,
        }
    }
}

#[derive(Debug, Default)]
struct WorkQueueState {
    tasks: VecDeque<(Arc<NetnsTarget>, CollectionTask)>,
    running: BTreeMap<u64, RunningTask>,
    next: u64,
    kept: HashMap<DeviceKey, DeviceReader>,
    output: CollectionOutput,
}

#[derive(Debug)]
pub(crate) struct WorkQueue {
    options: CollectionOptions,
    pending: PendingRequests,
    state: Mutex<WorkQueueState>,
    /// Wakes the workers: there can be new tasks, or none will follow.
    tasks: Condvar,
    /// Wakes the collection: all tasks are done. It is not woken for each task, which would be expensive.
    done: Condvar,
}

/// Reads every device in these network namespaces. `kept` are the readers of the last collection.
pub(crate) fn collect(
    places: Vec<Arc<NetnsTarget>>,
    kept: HashMap<DeviceKey, DeviceReader>,
    options: CollectionOptions,
    pending: PendingRequests,
) -> CollectionOutput {
    let (tasks, done) = (Condvar::new(), Condvar::new());
    let queue = WorkQueue { options, pending, state: Mutex::default(), tasks, done };
    queue.enqueue_all(places, kept);
    Arc::new(queue).run()
}

impl WorkQueue {
    fn lock(&self) -> MutexGuard<'_, WorkQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue_all(&self, places: Vec<Arc<NetnsTarget>>, kept: HashMap<DeviceKey, DeviceReader>) {
        let mut state = self.lock();
        state.kept = kept;
        for place in places {
            match self.unanswered(place.id) {
                None => state.tasks.push_back((place, CollectionTask::List)),
                Some(silence) => {
                    let of = format!("the devices of {}", place.id);
                    let error = CollectError::still_timed_out(Collector::Devices, &of, silence);
                    state.output.errors.push(error);
                }
            }
        }
    }

    /// Returns the time for which listing the devices of a namespace has been blocked.
    fn unanswered(&self, place: NetNsId) -> Option<Duration> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = pending.values().filter(|request| request.place == place && request.device.is_none());
        same.next().map(|request| request.since.elapsed())
    }

    /// Starts workers until all tasks are done, and returns the result.
    fn run(self: &Arc<Self>) -> CollectionOutput {
        let mut workers = 0;
        let mut state = self.lock();
        loop {
            workers -= self.abandon_overdue(&mut state);
            if state.tasks.is_empty() && state.running.is_empty() {
                break;
            }
            while workers < self.options.workers {
                let queue = self.clone();
                // Detached on purpose: the thread can be blocked forever.
                thread::spawn(move || queue.run_worker());
                workers += 1;
            }
            let deadline = state.running.values().map(|running| running.deadline(self.options.timeout)).min();
            let wait =
                deadline.map_or(self.options.timeout, |at| at.saturating_duration_since(Instant::now()));
            // A task may begin a costly reading meanwhile, for which there is less time.
            let wait = wait.clamp(Duration::from_millis(1), COSTLY_TIMEOUT);
            state = self.done.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut output = std::mem::take(&mut state.output);
        // Moves each reading once; they are large.
        output.readings.sort_by_cached_key(|reading| (!reading.on_node, reading.device.name.clone()));
        output
    }

    /// Abandons tasks that timed out: takes their values, and records their blocked stage. Returns their number.
    fn abandon_overdue(&self, state: &mut WorkQueueState) -> usize {
        let now = Instant::now();
        let is_overdue = |running: &RunningTask| running.deadline(self.options.timeout) <= now;
        let overdue: Vec<u64> =
            state.running.iter().filter(|(_, running)| is_overdue(running)).map(|(id, _)| *id).collect();
        for id in &overdue {
            if let Some(running) = state.running.remove(id) {
                self.abandon(*id, &running, &mut state.output);
                self.tasks.notify_all();
            }
        }
        overdue.len()
    }

    fn abandon(&self, id: u64, running: &RunningTask, output: &mut CollectionOutput) {
        let (place, since) = (running.place.id, running.since);
        // Until its files are open, a device has no progress.
        let stage = running.progress.as_ref().map_or(Collector::Devices, |progress| {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            output.take(&mut progress);
            progress.stage
        });
        let of = match &running.device {
            Some((_, name)) => format!("{stage} of RDMA device {name}"),
            None => format!("the devices of {place}"),
        };
        let device = running.device.as_ref().map(|(index, _)| *index);
        // A costly reading is no failure: the former one is used meanwhile.
        if !is_costly(stage) {
            output.errors.push(CollectError::timed_out(stage, &of, self.options.timeout));
        }
        let request = PendingRequest { place, device, stage, since };
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert((self.options.number, id), request);
    }

    fn run_worker(&self) {
        let mut session: Option<NetnsSockets> = None;
        while let Some((id, place, task)) = self.take(session.as_ref().map(|session| session.place.id)) {
            if session.as_ref().is_none_or(|session| session.place.id != place.id) {
                session = match NetnsSockets::open(place, &self.options.node, &self.options.host) {
                    Ok(opened) => opened,
                    Err(error) => {
                        let error = CollectError::at_devices(&*error);
                        if !self.complete_task(id, |state| state.output.errors.push(error)) {
                            return;
                        }
                        session = None;
                        continue;
                    }
                };
            }
            let is_awaited = match (&mut session, task) {
                // The namespace is gone, and its devices with it.
                (None, _) => self.complete_task(id, |_| ()),
                (Some(session), CollectionTask::List) => self.list_devices(id, session),
                (Some(session), CollectionTask::Read(assignment, kept)) => {
                    self.read(id, session, &assignment, kept)
                }
            };
            if !is_awaited {
                return;
            }
        }
    }

    /// Returns the next task, preferably in the worker's current namespace `at`. `None` if there are no tasks, and no running
    /// task can add more.
    fn take(&self, at: Option<NetNsId>) -> Option<(u64, Arc<NetnsTarget>, CollectionTask)> {
        let mut state = self.lock();
        loop {
            let here = state.tasks.iter().position(|(place, _)| Some(place.id) == at);
            if let Some((place, task)) = state.tasks.remove(here.unwrap_or(0)) {
                let id = state.next;
                state.next += 1;
                let device = match &task {
                    CollectionTask::List => None,
                    CollectionTask::Read(assignment, _) => {
                        Some((assignment.device.index, assignment.device.name.clone()))
                    }
                };
                let since = Instant::now();
                let running = RunningTask { since, place: place.clone(), device, progress: None };
                state.running.insert(id, running);
                return Some((id, place, task));
            }
            if !state.running.values().any(|running| running.device.is_none()) {
                return None;
            }
            state = self.tasks.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks a task as done. Returns `false` if it had been abandoned: the worker has been replaced, and its blocked stage is
    /// available again.
    fn complete_task(&self, id: u64, note: impl FnOnce(&mut WorkQueueState)) -> bool {
        let mut state = self.lock();
        let running = state.running.remove(&id);
        if running.is_some() {
            note(&mut state);
        } else {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.remove(&(self.options.number, id));
        }
        if running.as_ref().is_some_and(|running| running.device.is_none()) {
            self.tasks.notify_all();
        }
        if state.tasks.is_empty() && state.running.is_empty() {
            self.done.notify_all();
        }
        running.is_some()
    }

    fn list_devices(&self, id: u64, session: &mut NetnsSockets) -> bool {
        let began = Instant::now();
        let devices = session.devices();
        let place = session.place.clone();
        self.complete_task(id, |state| {
            state.output.spent.add(Collector::Devices, began.elapsed());
            match devices {
                Ok(devices) => self.enqueue_devices(state, &place, devices),
                Err(error) => state.output.errors.push(CollectError::new(Collector::Devices, &error)),
            }
        })
    }

    fn enqueue_devices(
        &self,
        state: &mut WorkQueueState,
        place: &Arc<NetnsTarget>,
        devices: Vec<rdma::Device>,
    ) {
        let wanted = devices.into_iter().filter(|device| self.options.devices.has(&device.name));
        let limit = if place.is_node() { usize::MAX } else { MAX_DEVICES_PER_POD };
        for device in wanted.take(limit) {
            let key = (place.id, device.index);
            let (stages, pending) = self.responsive_stages(key, &device.name, &mut state.output.errors);
            let at_once = self.options.gids.at_once.contains(&device.name);
            let gids_before = if at_once { Instant::now() } else { self.options.gids.before };
            // Opening the device's files is still blocked.
            if !stages.has(Collector::Devices) {
                continue;
            }
            // After a rename, files that were opened under the old name can belong to another device.
            let kept = state.kept.remove(&key).filter(|kept| kept.name == device.name);
            let assignment = DeviceTask {
                device,
                stages,
                pending,
                gids_before,
                listed: self.options.listed.clone(),
                listed_before: self.options.listed_before,
                physical: self.options.physical.clone(),
            };
            state.tasks.push_back((place.clone(), CollectionTask::Read(Box::new(assignment), kept)));
        }
    }

    /// Returns the stages that do not hang, and the costly ones that are still running.
    fn responsive_stages(
        &self,
        (place, device): DeviceKey,
        name: &str,
        errors: &mut Vec<CollectError>,
    ) -> (crate::CollectorSet, Vec<Collector>) {
        let (mut stages, mut running) = (self.options.collectors, Vec::new());
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for request in pending.values().filter(|q| (q.place, q.device) == (place, Some(device))) {
            let stage = request.stage;
            stages = stages.without(stage);
            let (of, since) = (format!("{stage} of RDMA device {name}"), request.since.elapsed());
            if !is_costly(stage) || since > HUNG_AFTER {
                errors.push(CollectError::still_timed_out(stage, &of, since));
            } else {
                running.push(stage);
            }
        }
        (stages, running)
    }

    fn read(
        &self,
        id: u64,
        session: &mut NetnsSockets,
        assignment: &DeviceTask,
        kept: Option<DeviceReader>,
    ) -> bool {
        let (place, index) = (session.place.id, assignment.device.index);
        let mut errors = Vec::new();
        let reader = match kept {
            Some(kept) => Ok(Some(kept)),
            None => DeviceReader::open(session, &assignment.device.name, &self.options.files, &mut errors),
        };
        let mut reader = match reader {
            Ok(Some(reader)) => reader,
            Ok(None) => return self.complete_task(id, |_| ()), // the device is gone
            Err(error) => {
                return self
                    .complete_task(id, |state| state.output.errors.push(CollectError::at_devices(&*error)));
            }
        };
        let progress =
            ReadProgress { errors, ..ReadProgress::begin(session, assignment, reader.facts.clone()) };
        let progress = Arc::new(Mutex::new(progress));
        let is_awaited =
            self.lock().running.get_mut(&id).map(|running| running.progress = Some(progress.clone()));
        if is_awaited.is_none() {
            return self.complete_task(id, |_| ()); // the task was abandoned
        }
        reader.read(session, assignment, &progress);
        // Lock order: the queue first, then the progress.
        self.complete_task(id, |state| {
            state.output.take(&mut progress.lock().unwrap_or_else(PoisonError::into_inner));
            state.output.readers.insert((place, index), reader);
        })
    }
}

impl CollectionOutput {
    fn take(&mut self, progress: &mut ReadProgress) {
        self.readings.extend(progress.reading.take());
        self.errors.append(&mut progress.errors);
        self.spent.add_all(&progress.spent);
    }
}

impl CollectError {
    fn at_devices(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        Self::new(Collector::Devices, error as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests;
