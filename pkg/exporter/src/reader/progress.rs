//! The progress of reading a device.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rdma::Device;

use crate::{
    CollectError, Collector, CollectorSet, DeviceReading, RawCounters,
    collector_set::CollectorTimes,
    costly_readings::{ListedObjects, PhysicalStates},
    device_info::DeviceInfo,
    netns_sockets::NetnsSockets,
};

/// The progress of reading a device. After a timeout the collection takes the values that were read so far.
#[derive(Debug)]
pub(crate) struct ReadProgress {
    /// The current stage.
    pub(crate) stage: Collector,
    /// The beginning of the current stage.
    pub(crate) stage_began: Instant,
    /// The values that were read so far; `None` after the collection has taken them.
    pub(crate) reading: Option<DeviceReading>,
    /// The values that could not be read.
    pub(crate) errors: Vec<CollectError>,
    /// The time that each stage took.
    pub(crate) spent: CollectorTimes,
}

/// A device to read, and options for reading it.
#[derive(Debug)]
pub(crate) struct DeviceTask {
    pub(crate) device: Device,
    /// The stages to run.
    pub(crate) stages: CollectorSet,
    /// Costly stages that are still running for a former collection: the readings before are used.
    pub(crate) pending: Vec<Collector>,
    /// The objects that were listed last.
    pub(crate) listed: ListedObjects,
    /// Objects that were listed before this time are listed again.
    pub(crate) listed_before: Instant,
    /// The physical states that were read last.
    pub(crate) physical: PhysicalStates,
    /// GID tables that were read before this time are read again.
    pub(crate) gids_before: Instant,
}

impl DeviceTask {
    /// Whether a stage runs, or its former reading is used.
    pub(crate) fn has_reading_of(&self, stage: Collector) -> bool {
        self.stages.has(stage) || self.pending.contains(&stage)
    }
}

impl ReadProgress {
    pub(crate) fn begin(session: &NetnsSockets, assignment: &DeviceTask, facts: Arc<DeviceInfo>) -> Self {
        let reading = DeviceReading {
            place: session.place.id,
            on_node: session.place.is_node(),
            pod: session.place.pod.clone(),
            process: session.place.process.clone(),
            device: assignment.device.clone(),
            facts,
            ports: Vec::new(),
            counters: RawCounters::default(),
            traffic_class: None,
            resources: None,
            objects: None,
            counter_sets: None,
        };
        Self {
            stage: Collector::Devices,
            stage_began: Instant::now(),
            reading: Some(reading),
            errors: Vec::new(),
            spent: CollectorTimes::default(),
        }
    }
}

/// Runs the stages of one reading.
pub(super) struct ReadStages<'a> {
    pub(super) progress: &'a Mutex<ReadProgress>,
    pub(super) stages: CollectorSet,
}

impl ReadStages<'_> {
    /// Runs a stage unless it is disabled.
    pub(super) fn take<T>(
        &mut self,
        stage: Collector,
        work: impl FnOnce(&mut Vec<CollectError>) -> T,
    ) -> Option<T> {
        if !self.stages.has(stage) {
            return None;
        }
        let (mut errors, began) = (Vec::new(), Instant::now());
        {
            let mut progress = self.lock();
            (progress.stage, progress.stage_began) = (stage, began);
        }
        let result = work(&mut errors);
        let mut progress = self.lock();
        progress.spent.add(stage, began.elapsed());
        progress.errors.append(&mut errors);
        Some(result)
    }

    /// Stores values in the reading, unless the collection has taken it after a timeout.
    pub(super) fn store(&self, into: impl FnOnce(&mut DeviceReading)) {
        if let Some(reading) = &mut self.lock().reading {
            into(reading);
        }
    }

    /// Returns a part of the reading; `None` if the collection has taken it.
    pub(super) fn reading<T>(&self, of: impl FnOnce(&DeviceReading) -> T) -> Option<T> {
        self.lock().reading.as_ref().map(of)
    }

    fn lock(&self) -> MutexGuard<'_, ReadProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
