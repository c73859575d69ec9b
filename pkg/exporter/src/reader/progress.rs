//! How far the reading of a device is.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rdma::Device;

use super::DeviceReader;
use crate::{
    CollectError, Collector, CollectorSet, DeviceReading, RawCounters, collector_set::CollectorTimes,
    netns_sockets::NetnsSockets,
};

/// How far the reading of a device is. Whoever waits for it sees what it is at, and takes what there is.
#[derive(Debug)]
pub(crate) struct ReadProgress {
    /// What is being read now.
    pub(crate) stage: Collector,
    /// What has been read, until somebody takes it.
    pub(crate) reading: Option<DeviceReading>,
    /// What could not be.
    pub(crate) troubles: Vec<CollectError>,
    /// How long each stage took.
    pub(crate) spent: CollectorTimes,
}

/// A device to read, and how.
#[derive(Debug)]
pub(crate) struct DeviceTask {
    pub(crate) device: Device,
    /// The stages to go through.
    pub(crate) stages: CollectorSet,
    /// A GID table older than this is read again.
    pub(crate) gids_before: Instant,
}

impl ReadProgress {
    pub(crate) fn begin(session: &NetnsSockets, assignment: &DeviceTask, reader: &DeviceReader) -> Self {
        let reading = DeviceReading {
            place: session.place.id,
            on_node: session.place.is_node(),
            pod: session.place.pod.clone(),
            device: assignment.device.clone(),
            facts: reader.facts.clone(),
            ports: Vec::new(),
            counters: RawCounters::default(),
            traffic_class: None,
            resources: None,
            objects: None,
        };
        Self {
            stage: Collector::Devices,
            reading: Some(reading),
            troubles: Vec::new(),
            spent: CollectorTimes::default(),
        }
    }
}

/// The stages of one reading.
pub(super) struct ReadStages<'a> {
    pub(super) progress: &'a Mutex<ReadProgress>,
    pub(super) stages: CollectorSet,
}

impl ReadStages<'_> {
    /// Goes through a stage, unless it is switched off.
    pub(super) fn take<T>(
        &mut self,
        stage: Collector,
        work: impl FnOnce(&mut Vec<CollectError>) -> T,
    ) -> Option<T> {
        if !self.stages.has(stage) {
            return None;
        }
        self.lock().stage = stage;
        let (mut troubles, began) = (Vec::new(), Instant::now());
        let result = work(&mut troubles);
        let mut progress = self.lock();
        progress.spent.add(stage, began.elapsed());
        progress.troubles.append(&mut troubles);
        Some(result)
    }

    /// Notes what was read, unless it is too late.
    pub(super) fn store(&self, into: impl FnOnce(&mut DeviceReading)) {
        if let Some(reading) = &mut self.lock().reading {
            into(reading);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
