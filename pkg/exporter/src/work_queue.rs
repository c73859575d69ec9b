//! The board on which a collection's work hangs, for several workers.
//!
//! Firmware that hangs stops whoever asks it, inside a system call and for as long as it likes. So no single thread
//! reads everything: workers take devices from a board, the collection waits for each only so long, and whoever is
//! late is left to its fate: what it has read so far counts, a new worker takes its place, and what it is stuck in is
//! not tried again before it has come back.

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
    counter_files::OpenFileBudget,
    gid_schedule::GidPlan,
    netns_sockets::NetnsSockets,
    netns_target::NetnsTarget,
    reader::{DeviceReader, DeviceTask, ReadProgress},
};

/// A device: the kernel's number for it stays across moves and renames. The namespace is in it because the files that
/// are kept open are seen from there.
pub(crate) type DeviceKey = (NetNsId, u32);

/// What has not answered yet, by the collection and the task that asked.
pub(crate) type PendingRequests = Arc<Mutex<HashMap<(u64, u64), PendingRequest>>>;

/// A question that has not been answered yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    place: NetNsId,
    /// The device; the place as a whole without one.
    device: Option<u32>,
    stage: Collector,
    since: Instant,
}

/// How a collection is made.
#[derive(Debug, Clone)]
pub(crate) struct CollectionOptions {
    /// What tells this collection from others.
    pub(crate) number: u64,
    /// The node's sysfs.
    pub(crate) node: Sysfs,
    /// The node's namespace, in which the workers are.
    pub(crate) home: Arc<NetNs>,
    /// What is read.
    pub(crate) collectors: crate::CollectorSet,
    /// Which devices.
    pub(crate) devices: crate::DeviceFilter,
    /// How long a device may take.
    pub(crate) patience: Duration,
    /// Which GID tables are read again.
    pub(crate) gids: GidPlan,
    /// Which files may be kept open.
    pub(crate) files: OpenFileBudget,
    /// How many read at a time.
    pub(crate) workers: usize,
}

/// A pod may make software devices in its namespace, as many as it likes. No more of them are read.
const MAX_DEVICES_PER_POD: usize = 64;

/// What a collection brought home.
#[derive(Debug, Default)]
pub(crate) struct CollectionOutput {
    pub(crate) readings: Vec<DeviceReading>,
    pub(crate) readers: HashMap<DeviceKey, DeviceReader>,
    pub(crate) troubles: Vec<CollectError>,
    pub(crate) spent: CollectorTimes,
}

#[derive(Debug)]
enum CollectionTask {
    /// See which devices are there.
    Look,
    /// Read one of them.
    Read(Box<DeviceTask>, Option<DeviceReader>),
}

#[derive(Debug)]
struct RunningTask {
    since: Instant,
    place: Arc<NetnsTarget>,
    /// The device's number and name; without one the place is looked at, which may bring more tasks.
    device: Option<(u32, String)>,
    /// The device, once it is being read.
    progress: Option<Arc<Mutex<ReadProgress>>>,
}

#[derive(Debug, Default)]
struct WorkQueueState {
    tasks: VecDeque<(Arc<NetnsTarget>, CollectionTask)>,
    running: BTreeMap<u64, RunningTask>,
    next: u64,
    kept: HashMap<DeviceKey, DeviceReader>,
    harvest: CollectionOutput,
}

#[derive(Debug)]
pub(crate) struct WorkQueue {
    manner: CollectionOptions,
    silent: PendingRequests,
    state: Mutex<WorkQueueState>,
    /// There may be tasks, or no more of them: for workers.
    tasks: Condvar,
    /// All is done, or somebody may be late: for whoever waits for the harvest. It would cost much to wake it for each
    /// task.
    done: Condvar,
}

/// Reads every device of these places. `kept` are the readers of the last collection.
pub(crate) fn collect(
    places: Vec<Arc<NetnsTarget>>,
    kept: HashMap<DeviceKey, DeviceReader>,
    manner: CollectionOptions,
    silent: PendingRequests,
) -> CollectionOutput {
    let (tasks, done) = (Condvar::new(), Condvar::new());
    let board = WorkQueue { manner, silent, state: Mutex::default(), tasks, done };
    board.enqueue_all(places, kept);
    Arc::new(board).run()
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
                None => state.tasks.push_back((place, CollectionTask::Look)),
                Some(silence) => {
                    let of = format!("the devices of {}", place.id);
                    let trouble = CollectError::still_timed_out(Collector::Devices, &of, silence);
                    state.harvest.troubles.push(trouble);
                }
            }
        }
    }

    /// For how long a place has not answered, if it was asked.
    fn unanswered(&self, place: NetNsId) -> Option<Duration> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same =
            silent.values().filter(|question| question.place == place && question.device.is_none());
        same.next().map(|question| question.since.elapsed())
    }

    /// Sees to it that there are workers, until nothing is left to do.
    fn run(self: &Arc<Self>) -> CollectionOutput {
        let mut hired = 0;
        let mut state = self.lock();
        loop {
            hired -= self.abandon_overdue(&mut state);
            if state.tasks.is_empty() && state.running.is_empty() {
                break;
            }
            while hired < self.manner.workers {
                let board = self.clone();
                // Detached on purpose: it may never come back.
                thread::spawn(move || board.run_worker());
                hired += 1;
            }
            let patience = state.running.values().map(|running| running.since).min();
            let wait = patience.map_or(self.manner.patience, |since| {
                (since + self.manner.patience).saturating_duration_since(Instant::now())
            });
            let wait = wait.max(Duration::from_millis(1));
            state = self.done.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut harvest = std::mem::take(&mut state.harvest);
        harvest.readings.sort_by(|a, b| (!a.on_node, &a.device.name).cmp(&(!b.on_node, &b.device.name)));
        harvest
    }

    /// Takes what the late have read so far, and notes what they are stuck in. Returns how many they are.
    fn abandon_overdue(&self, state: &mut WorkQueueState) -> usize {
        let is_late = |running: &RunningTask| running.since.elapsed() >= self.manner.patience;
        let late: Vec<u64> =
            state.running.iter().filter(|(_, running)| is_late(running)).map(|(id, _)| *id).collect();
        for id in &late {
            if let Some(running) = state.running.remove(id) {
                self.abandon(*id, &running, &mut state.harvest);
                self.tasks.notify_all();
            }
        }
        late.len()
    }

    fn abandon(&self, id: u64, running: &RunningTask, harvest: &mut CollectionOutput) {
        let (place, since) = (running.place.id, running.since);
        // Until its files are open, a device has no progress.
        let stage = running.progress.as_ref().map_or(Collector::Devices, |progress| {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            harvest.take(&mut progress);
            progress.stage
        });
        let of = match &running.device {
            Some((_, name)) => format!("{stage} of RDMA device {name}"),
            None => format!("the devices of {place}"),
        };
        let device = running.device.as_ref().map(|(index, _)| *index);
        harvest.troubles.push(CollectError::timed_out(stage, &of, self.manner.patience));
        let question = PendingRequest { place, device, stage, since };
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.insert((self.manner.number, id), question);
    }

    fn run_worker(&self) {
        let mut session: Option<NetnsSockets> = None;
        while let Some((id, place, task)) = self.take(session.as_ref().map(|session| session.place.id)) {
            if session.as_ref().is_none_or(|session| session.place.id != place.id) {
                session = match NetnsSockets::open(place, &self.manner.node, &self.manner.home) {
                    Ok(opened) => opened,
                    Err(error) => {
                        let trouble = CollectError::at_devices(&*error);
                        if !self.complete_task(id, |state| state.harvest.troubles.push(trouble)) {
                            return;
                        }
                        session = None;
                        continue;
                    }
                };
            }
            let went_on = match (&mut session, task) {
                // The namespace is gone, and its devices with it.
                (None, _) => self.complete_task(id, |_| ()),
                (Some(session), CollectionTask::Look) => self.list_devices(id, session),
                (Some(session), CollectionTask::Read(assignment, kept)) => {
                    self.read(id, session, &assignment, kept)
                }
            };
            if !went_on {
                return;
            }
        }
    }

    /// The next task: in the place where the worker is, if there is one. `None` if nothing is left, and nothing that is
    /// under way can bring more.
    fn take(&self, at: Option<NetNsId>) -> Option<(u64, Arc<NetnsTarget>, CollectionTask)> {
        let mut state = self.lock();
        loop {
            let here = state.tasks.iter().position(|(place, _)| Some(place.id) == at);
            if let Some((place, task)) = state.tasks.remove(here.unwrap_or(0)) {
                let id = state.next;
                state.next += 1;
                let device = match &task {
                    CollectionTask::Look => None,
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

    /// Notes that a task is done. `false` if nobody waits for it any more: the worker has been replaced, and what it
    /// was stuck in answers again.
    fn complete_task(&self, id: u64, note: impl FnOnce(&mut WorkQueueState)) -> bool {
        let mut state = self.lock();
        let running = state.running.remove(&id);
        if running.is_some() {
            note(&mut state);
        } else {
            let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
            silent.remove(&(self.manner.number, id));
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
            state.harvest.spent.add(Collector::Devices, began.elapsed());
            match devices {
                Ok(devices) => self.enqueue_devices(state, &place, devices),
                Err(error) => state.harvest.troubles.push(CollectError::new(Collector::Devices, &error)),
            }
        })
    }

    fn enqueue_devices(
        &self,
        state: &mut WorkQueueState,
        place: &Arc<NetnsTarget>,
        devices: Vec<rdma::Device>,
    ) {
        let wanted = devices.into_iter().filter(|device| self.manner.devices.has(&device.name));
        let limit = if place.is_node() { usize::MAX } else { MAX_DEVICES_PER_POD };
        for device in wanted.take(limit) {
            let key = (place.id, device.index);
            let stages = self.responsive_stages(key, &device.name, &mut state.harvest.troubles);
            let at_once = self.manner.gids.at_once.contains(&device.name);
            let gids_before = if at_once { Instant::now() } else { self.manner.gids.before };
            // What could not even be opened would be stuck again.
            if !stages.has(Collector::Devices) {
                continue;
            }
            // Files that were opened under another name may be another device's by now.
            let kept = state.kept.remove(&key).filter(|kept| kept.name == device.name);
            let assignment = DeviceTask { device, stages, gids_before };
            state.tasks.push_back((place.clone(), CollectionTask::Read(Box::new(assignment), kept)));
        }
    }

    fn responsive_stages(
        &self,
        (place, device): DeviceKey,
        name: &str,
        troubles: &mut Vec<CollectError>,
    ) -> crate::CollectorSet {
        let mut stages = self.manner.collectors;
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        for question in silent.values().filter(|q| (q.place, q.device) == (place, Some(device))) {
            let stage = question.stage;
            stages = stages.without(stage);
            let of = format!("{stage} of RDMA device {name}");
            troubles.push(CollectError::still_timed_out(stage, &of, question.since.elapsed()));
        }
        stages
    }

    fn read(
        &self,
        id: u64,
        session: &mut NetnsSockets,
        assignment: &DeviceTask,
        kept: Option<DeviceReader>,
    ) -> bool {
        let (place, index) = (session.place.id, assignment.device.index);
        let mut troubles = Vec::new();
        let reader = match kept {
            Some(kept) => Ok(Some(kept)),
            None => DeviceReader::open(session, &assignment.device.name, &self.manner.files, &mut troubles),
        };
        let mut reader = match reader {
            Ok(Some(reader)) => reader,
            Ok(None) => return self.complete_task(id, |_| ()), // it went meanwhile
            Err(error) => {
                return self.complete_task(id, |state| {
                    state.harvest.troubles.push(CollectError::at_devices(&*error))
                });
            }
        };
        let progress = ReadProgress { troubles, ..ReadProgress::begin(session, assignment, &reader) };
        let progress = Arc::new(Mutex::new(progress));
        let is_awaited =
            self.lock().running.get_mut(&id).map(|running| running.progress = Some(progress.clone()));
        if is_awaited.is_none() {
            return self.complete_task(id, |_| ()); // it was given up
        }
        reader.read(session, assignment, &progress);
        // The board's lock comes before a progress's, always.
        self.complete_task(id, |state| {
            state.harvest.take(&mut progress.lock().unwrap_or_else(PoisonError::into_inner));
            state.harvest.readers.insert((place, index), reader);
        })
    }
}

impl CollectionOutput {
    fn take(&mut self, progress: &mut ReadProgress) {
        self.readings.extend(progress.reading.take());
        self.troubles.append(&mut progress.troubles);
        self.spent.add_all(&progress.spent);
    }
}

impl CollectError {
    fn at_devices(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Self {
        Self::new(Collector::Devices, error as &(dyn std::error::Error + 'static))
    }
}
