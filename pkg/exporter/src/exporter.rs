//! One collection after another.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    thread,
    time::{Instant, SystemTime},
};

use kubepods::{PodCgroup, Processes};
use netns::{NetNs, NetNsId};
use podmap::Entry;
use rdma::NetnsMode;
use sysfs::Sysfs;

use crate::{
    Attribution, CollectError, Collector, CollectorSet, DeviceReading, ErrorReason, ExporterOptions,
    NodeSnapshot, PodInfo, WorkloadResolver,
    addresses::PoolUsageReader,
    collector_health::CollectorHealth,
    collector_set::CollectorTimes,
    counter_files::OpenFileBudget,
    counter_history::{CounterHistory, PortUser},
    counter_layout::CounterLayouts,
    counter_sets::{self, CounterSets},
    counter_values::CounterValues,
    families::FamilyWriter,
    gid_schedule::GidSchedule,
    netns_target::NetnsTarget,
    node_snapshot::{CgroupUsage, DeviceSnapshot},
    pods::PodDirectory,
    psn::{self, Sampler},
    reader::DeviceReader,
    resource_usage::{ContextOwners, DeviceUsage, HolderResolver},
    work_queue::{self, CollectionOptions, CollectionOutput, DeviceKey, PendingRequests},
};

/// Reads a node again and again.
#[derive(Debug)]
pub struct Exporter {
    settings: ExporterOptions,
    sysfs: Sysfs,
    processes: Processes,
    owners: Arc<dyn WorkloadResolver>,
    pods: PodDirectory,
    addresses: PoolUsageReader,
    places: HashMap<NetNsId, Arc<NetnsTarget>>,
    readers: HashMap<DeviceKey, DeviceReader>,
    silent: PendingRequests,
    files: OpenFileBudget,
    layouts: CounterLayouts,
    ledger: CounterHistory,
    memory: ContextOwners,
    sampler: Option<Sampler>,
    counter_sets: CounterSets,
    health: CollectorHealth,
    teller: FamilyWriter,
    gids: GidSchedule,
    collections: u64,
}

impl Exporter {
    /// An exporter that has read nothing yet; with [`Collector::Psn`] it begins to, in the background and in the calling
    /// thread's network namespace. Without an API server the settings should have no [`Collector::Owners`].
    pub fn new(settings: ExporterOptions, owners: Arc<dyn WorkloadResolver>) -> Self {
        Self {
            sysfs: Sysfs::at(settings.root.join("sys")),
            processes: Processes::at(&settings.root),
            pods: PodDirectory::at(&settings.root, &settings.state_dir),
            addresses: PoolUsageReader::at(&settings.root, &settings.state_dir),
            files: OpenFileBudget::new(settings.kept_files),
            sampler: settings.collectors.has(Collector::Psn).then(|| psn::start(&settings)),
            counter_sets: CounterSets::default(),
            settings,
            owners,
            places: HashMap::new(),
            readers: HashMap::new(),
            silent: PendingRequests::default(),
            layouts: CounterLayouts::default(),
            teller: FamilyWriter::default(),
            gids: GidSchedule::default(),
            ledger: CounterHistory::default(),
            memory: ContextOwners::default(),
            health: CollectorHealth::default(),
            collections: 0,
        }
    }

    /// Reads the node. Whatever cannot be read costs only itself; nothing is waited for longer than the patience for
    /// each thing that hangs.
    pub fn collect(&mut self) -> NodeSnapshot {
        self.collections += 1;
        let taken = SystemTime::now();
        let mut troubles = Vec::new();
        let mut spent = CollectorTimes::default();
        let former = self.pods.entries.clone();
        let mut addresses = Vec::new();
        if self.settings.collectors.has(Collector::Pods) {
            addresses = timed(&mut spent, Collector::Pods, || {
                self.pods.read(&mut troubles);
                self.addresses.read(&mut troubles)
            });
        }
        let has_rdma = self.sysfs.has_rdma().unwrap_or(true);
        let mut mode = None;
        let mut harvest = CollectionOutput::default();
        if has_rdma {
            if self.settings.collectors.has(Collector::Owners) {
                troubles.append(&mut self.owners.troubles());
            }
            if self.settings.collectors.has(Collector::Mode) {
                mode = timed(&mut spent, Collector::Mode, || self.read_mode(&mut troubles));
            }
            harvest = self.run_collection(&former, &mut troubles);
        }
        troubles.append(&mut harvest.troubles);
        spent.add_all(&harvest.spent);
        self.readers = harvest.readers;
        let sampled = self.sampler.as_ref().map(Sampler::take).unwrap_or_default();
        troubles.extend(sampled.troubles.iter().cloned());
        spent.add(Collector::Psn, sampled.spent);
        let readings = log_once(harvest.readings);
        let (devices, cgroups) = self.attribute(readings, sampled, &mut troubles);
        let ran = if has_rdma { self.settings.collectors } else { CollectorSet::none() };
        let outcomes = self.health.record(ran, &troubles, &spent);
        let mut report = NodeSnapshot {
            has_rdma,
            mode,
            devices,
            entries: self.pods.entries.clone(),
            addresses,
            outcomes,
            troubles,
            cgroups,
            errors: self.health.errors().collect(),
            ..NodeSnapshot::new(self.settings.node.clone(), taken)
        };
        report.name_pods(&self.ledger, &*self.owners);
        report.retain_traffic(&self.ledger);
        report.exposition = self.teller.write(&report, &self.ledger, self.settings.spiderpool);
        report
    }

    fn read_mode(&self, troubles: &mut Vec<CollectError>) -> Option<NetnsMode> {
        let mode = rdma::Handle::open(&self.sysfs).and_then(|rdma| rdma.netns_mode());
        match mode {
            Ok(mode) => Some(mode),
            Err(rdma::Error::TooOld { .. }) => None,
            Err(error) => {
                troubles.push(CollectError::new(Collector::Mode, &error));
                None
            }
        }
    }

    fn run_collection(
        &mut self,
        former: &Arc<[Entry]>,
        troubles: &mut Vec<CollectError>,
    ) -> CollectionOutput {
        let home = match NetNs::current() {
            Ok(home) => Arc::new(home),
            Err(error) => {
                troubles.push(CollectError::new(Collector::Devices, &error));
                return CollectionOutput::default();
            }
        };
        let places = self.netns_targets(&home);
        let ages = self.readers.values().filter_map(DeviceReader::oldest_gids).collect();
        let gids = self.gids.plan(ages, former, &self.pods.entries);
        let manner = CollectionOptions {
            number: self.collections,
            node: self.sysfs.clone(),
            home,
            collectors: self.settings.collectors,
            devices: self.settings.devices.clone(),
            patience: self.settings.patience,
            gids,
            files: self.files.clone(),
            workers: thread::available_parallelism().map_or(2, |cpus| cpus.get().clamp(2, 4)),
        };
        work_queue::collect(places, std::mem::take(&mut self.readers), manner, self.silent.clone())
    }

    /// The node's namespace and those of pods that have a device to themselves, each once.
    fn netns_targets(&mut self, home: &NetNs) -> Vec<Arc<NetnsTarget>> {
        let node = self.places.get(&home.id()).filter(|kept| kept.is_node()).cloned();
        let mut places = vec![node.unwrap_or_else(|| Arc::new(NetnsTarget::node(home, &self.sysfs)))];
        let of_pods =
            self.pods.entries.iter().filter_map(|entry| NetnsTarget::of(entry, &self.settings.root));
        for place in of_pods {
            if places.iter().all(|other| other.id != place.id) {
                let kept = self.places.get(&place.id).filter(|kept| kept.is_same(&place));
                places.push(kept.cloned().unwrap_or_else(|| Arc::new(place)));
            }
        }
        self.places = places.iter().map(|place| (place.id, place.clone())).collect();
        places
    }

    /// Finds out whose everything is.
    fn attribute(
        &mut self,
        readings: Vec<DeviceReading>,
        sampled: psn::SamplerOutput,
        troubles: &mut Vec<CollectError>,
    ) -> (Vec<DeviceSnapshot>, Vec<CgroupUsage>) {
        // Where there is no device, nobody uses one.
        let sees_processes = !readings.is_empty() && self.sees_processes(troubles);
        let mut whose = HolderResolver::new(&self.processes, &self.pods, &mut self.memory, troubles);
        let mut usages = Vec::with_capacity(readings.len());
        for reading in &readings {
            let can = sees_processes || !reading.on_node;
            usages.push(if can { whose.usage(reading) } else { None });
            if can && let Some((sets, objects)) = reading.counter_sets() {
                let pairs = whose.of_queue_pairs(reading.device.index, objects);
                self.counter_sets
                    .enter(&reading.device, sets, |set| counter_sets::pod(set, &mut whose, &pairs));
            }
        }
        let cgroups = std::mem::take(&mut whose.cgroups);
        let mut devices = Vec::with_capacity(readings.len());
        for (reading, usage) in readings.into_iter().zip(usages) {
            let owner: PortUser = match (&reading.pod, reading.on_node) {
                (Some(pod), false) => Some((pod.clone(), Attribution::ExclusiveNetns)),
                (None, false) => None,
                _ => {
                    usage.as_ref().and_then(|u| u.sole_user()).map(|pod| (pod.clone(), Attribution::SoleUser))
                }
            };
            devices.push(self.update_history(reading, usage, &owner, troubles));
        }
        let connected = self.add_sampled_packets(sampled);
        self.counter_sets.publish_totals(&mut self.layouts, &mut self.ledger);
        self.drop_gone_devices(&devices, connected);
        (devices, self.cgroup_use(&cgroups, troubles))
    }

    /// Enters a device's counters into the ledger.
    fn update_history(
        &mut self,
        reading: DeviceReading,
        usage: Option<DeviceUsage>,
        owner: &PortUser,
        troubles: &mut Vec<CollectError>,
    ) -> DeviceSnapshot {
        let (index, name) = (reading.device.index, &reading.device.name);
        let mut sheets = Vec::with_capacity(reading.ports.len());
        for port in &reading.ports {
            let key = (index, port.port.port);
            let mut sheet = CounterValues::of_port(port, &mut self.layouts, self.ledger.layout(key));
            self.ledger.update_port(key, name, owner.clone(), &mut sheet);
            troubles.extend(sheet.layout.troubles.iter().cloned());
            sheets.push(sheet);
        }
        let sheet = (!reading.counters.is_empty()).then(|| {
            let last = self.ledger.layout((index, 0));
            let mut sheet = CounterValues::of_device(&reading.counters, &mut self.layouts, last);
            self.ledger.update_port((index, 0), name, None, &mut sheet);
            sheet
        });
        DeviceSnapshot { reading, usage, sheets, sheet }
    }

    /// Objects of processes in another PID namespace have no owner: attribution would silently be empty.
    fn sees_processes(&self, troubles: &mut Vec<CollectError>) -> bool {
        if !self.settings.collectors.has(Collector::Resources) {
            return false;
        }
        match self.processes.sees_every_process() {
            Ok(true) => true,
            Ok(false) => {
                let what = "the processes of pods are not seen: run it in the node's PID namespace \
                            (hostPID: true), or switch it off with --disable=resources";
                troubles.push(CollectError {
                    collector: Collector::Resources,
                    reason: ErrorReason::Permission,
                    what: what.to_owned(),
                });
                false
            }
            Err(error) => {
                troubles.push(CollectError::new(Collector::Resources, &error));
                false
            }
        }
    }

    /// Gives pods the packets that were counted in the background. Returns those that have a connection.
    fn add_sampled_packets(&mut self, sampled: psn::SamplerOutput) -> Vec<PodInfo> {
        for ((pod, device, port), packets) in sampled.packets {
            let sheet = packets.sheet(&mut self.layouts);
            self.ledger.add_to_account(self.pods.named(&pod), (device, port, Attribution::Psn), &sheet);
        }
        sampled.pods.iter().map(|pod| (*self.pods.named(pod)).clone()).collect()
    }

    /// A pod lives as long as the node knows of it, or somebody in it uses a device.
    fn drop_gone_devices(&mut self, devices: &[DeviceSnapshot], connected: Vec<PodInfo>) {
        let there: BTreeSet<u32> = devices.iter().map(|device| device.reading.device.index).collect();
        self.memory.forget(|device| there.contains(&device));
        let names: BTreeSet<&str> = devices.iter().map(|device| &*device.reading.device.name).collect();
        let mut living = self.pods.all();
        living.extend(connected);
        let users = devices.iter().filter_map(|device| device.usage.as_ref());
        living.extend(users.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            crate::ResourceHolder::Pod(pod) => Some((**pod).clone()),
            _ => None,
        }));
        let in_pods: BTreeSet<&Arc<PodInfo>> =
            devices.iter().filter_map(|d| d.reading.pod.as_ref()).collect();
        let lives = |pod: &PodInfo| living.contains(pod) || in_pods.iter().any(|other| ***other == *pod);
        self.ledger.forget(lives);
        self.ledger.forget_devices(|name| names.contains(name));
        let is_there = |index| devices.iter().any(|device| device.reading.device.index == index);
        self.counter_sets.forget(lives, is_there);
    }

    fn cgroup_use(
        &self,
        texts: &BTreeMap<Arc<PodInfo>, String>,
        troubles: &mut Vec<CollectError>,
    ) -> Vec<CgroupUsage> {
        if !self.settings.collectors.has(Collector::Cgroup) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (pod, text) in texts {
            let Some(cgroup) = PodCgroup::find(&self.settings.root, text) else { continue };
            match cgroup.rdma_usage() {
                Ok(usage) => found
                    .extend(usage.into_iter().flatten().map(|usage| CgroupUsage { pod: pod.clone(), usage })),
                Err(error) => troubles.push(CollectError::new(Collector::Cgroup, &error)),
            }
        }
        found
    }
}

/// Each device once: one that moved meanwhile was found in two places. The one that was read there counts.
fn log_once(mut readings: Vec<DeviceReading>) -> Vec<DeviceReading> {
    let mut best: HashMap<u32, usize> = HashMap::new();
    for (at, reading) in readings.iter().enumerate() {
        let kept = best.entry(reading.device.index).or_insert(at);
        if readings[*kept].ports.is_empty() && !reading.ports.is_empty() {
            *kept = at;
        }
    }
    let mut at = 0..;
    readings.retain(|reading| at.next() == best.get(&reading.device.index).copied());
    readings
}

fn timed<T>(spent: &mut CollectorTimes, of: Collector, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    spent.add(of, began.elapsed());
    result
}

#[cfg(test)]
mod tests;
