//! The exporter: runs collections and keeps state between them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use doctor_record::DoctorRecord;
use gc_record::GcRecord;
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
    costly_readings::{DeviceKey, LIST_PERIOD, ListedObjects, PhysicalStates},
    counter_files::OpenFileBudget,
    counter_history::{CounterHistory, PortUser, saved::CounterFile},
    counter_layout::CounterLayouts,
    counter_sets::{self, CounterSets},
    counter_values::CounterValues,
    families::FamilyWriter,
    gid_schedule::GidSchedule,
    netns_discovery::{NetnsDiscovery, NodeView},
    netns_target::NetnsTarget,
    node_snapshot::{CgroupUsage, DeviceSnapshot},
    physical_state,
    pods::PodDirectory,
    psn::{self, Sampler},
    reader::DeviceReader,
    resource_usage::{ContextOwners, DeviceUsage, HolderResolver},
    rotation::Rotation,
    work_queue::{self, CollectionOptions, CollectionOutput, PendingRequests},
};

/// Collects the metrics of a node repeatedly.
#[derive(Debug)]
pub struct Exporter {
    settings: ExporterOptions,
    sysfs: Sysfs,
    processes: Processes,
    owners: Arc<dyn WorkloadResolver>,
    pods: PodDirectory,
    addresses: PoolUsageReader,
    places: HashMap<NetNsId, Arc<NetnsTarget>>,
    discovery: NetnsDiscovery,
    listed: ListedObjects,
    lists: Rotation,
    physical: PhysicalStates,
    readers: HashMap<DeviceKey, DeviceReader>,
    pending: PendingRequests,
    files: OpenFileBudget,
    layouts: CounterLayouts,
    history: CounterHistory,
    counter_file: Option<CounterFile>,
    context_owners: ContextOwners,
    sampler: Option<Sampler>,
    counter_sets: CounterSets,
    health: CollectorHealth,
    writer: FamilyWriter,
    gids: GidSchedule,
    collections: u64,
}

impl Exporter {
    /// Creates an exporter. With [`Collector::Psn`] it starts sampling in the background, in the calling thread's network
    /// namespace. Without an API server the settings should not contain [`Collector::Owners`].
    pub fn new(settings: ExporterOptions, owners: Arc<dyn WorkloadResolver>) -> Self {
        let mut history = CounterHistory::default();
        let boot_id = bootid::below(&settings.root).ok();
        let file = settings.counter_file.clone().zip(boot_id);
        let mut counter_file =
            file.map(|(path, boot_id)| CounterFile::new(path, boot_id, settings.counter_sink.clone()));
        if let Some(file) = &mut counter_file {
            file.restore(&mut history);
        }
        let writer = FamilyWriter::new(settings.spiderpool, settings.metrics.clone());
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
            discovery: NetnsDiscovery::default(),
            listed: ListedObjects::new(Duration::ZERO),
            lists: Rotation::new(LIST_PERIOD),
            physical: PhysicalStates::new(physical_state::MIN_AGE),
            readers: HashMap::new(),
            pending: PendingRequests::default(),
            layouts: CounterLayouts::default(),
            writer,
            gids: GidSchedule::default(),
            history,
            counter_file,
            context_owners: ContextOwners::default(),
            health: CollectorHealth::default(),
            collections: 0,
        }
    }

    /// Runs one collection. A value that cannot be read is omitted, and a read that hangs is abandoned after the
    /// configured timeout.
    pub fn collect(&mut self) -> NodeSnapshot {
        self.collections += 1;
        let taken = SystemTime::now();
        let mut errors = Vec::new();
        let mut spent = CollectorTimes::default();
        let former = self.pods.entries.clone();
        let (mut addresses, mut gc, mut doctor) = (Vec::new(), None, None);
        if self.settings.collectors.has(Collector::Pods) {
            addresses = timed(&mut spent, Collector::Pods, || {
                self.pods.read(&mut errors);
                gc = self.gc_record(&mut errors);
                doctor = self.doctor_record(&mut errors);
                self.addresses.read(&mut errors)
            });
        }
        let has_rdma = self.sysfs.has_rdma().unwrap_or(true);
        let mut mode = None;
        let mut output = CollectionOutput::default();
        if has_rdma {
            if self.settings.collectors.has(Collector::Owners) {
                errors.append(&mut self.owners.errors());
            }
            if self.settings.collectors.has(Collector::Mode) {
                mode = timed(&mut spent, Collector::Mode, || self.read_mode(&mut errors));
            }
            output = self.run_collection(&former, &mut errors);
        }
        errors.append(&mut output.errors);
        spent.add_all(&output.spent);
        self.readers = output.readers;
        let sampled = self.sampler.as_ref().map(Sampler::take).unwrap_or_default();
        errors.extend(sampled.errors.iter().cloned());
        spent.add(Collector::Psn, sampled.spent);
        let readings = deduplicate(output.readings);
        self.discovery.note(&readings);
        let there: HashSet<DeviceKey> =
            readings.iter().map(|reading| (reading.place, reading.device.index)).collect();
        self.listed.retain(|device| there.contains(device));
        self.physical.retain(|(index, _)| there.iter().any(|(_, device)| device == index));
        let (devices, cgroups) = self.attribute(readings, sampled, &mut errors);
        let ran = if has_rdma { self.settings.collectors } else { CollectorSet::none() };
        if let Some(file) = &mut self.counter_file {
            file.save(&self.history);
        }
        let outcomes = self.health.record(ran, &errors, &spent);
        let mut report = NodeSnapshot {
            has_rdma,
            mode,
            devices,
            entries: self.pods.entries.clone(),
            addresses,
            gc,
            doctor,
            resources: self.settings.resources.get(),
            outcomes,
            errors,
            cgroups,
            error_counts: self.health.errors().collect(),
            unseen_devices: self.discovery.unseen(),
            ..NodeSnapshot::new(self.settings.node.clone(), taken)
        };
        report.set_pods(&self.history, &*self.owners);
        report.set_traffic(&self.history);
        report.exposition = self.writer.write(&report, &self.history);
        report
    }

    fn gc_record(&self, errors: &mut Vec<CollectError>) -> Option<GcRecord> {
        GcRecord::read(&self.state_dir()).unwrap_or_else(|error| {
            errors.push(CollectError::new(Collector::Pods, &error));
            None
        })
    }

    fn doctor_record(&self, errors: &mut Vec<CollectError>) -> Option<DoctorRecord> {
        DoctorRecord::read(&self.state_dir()).unwrap_or_else(|error| {
            errors.push(CollectError::new(Collector::Pods, &error));
            None
        })
    }

    fn state_dir(&self) -> PathBuf {
        let below = self.settings.state_dir.strip_prefix("/").unwrap_or(&self.settings.state_dir);
        self.settings.root.join(below)
    }

    fn read_mode(&self, errors: &mut Vec<CollectError>) -> Option<NetnsMode> {
        let mode = rdma::Handle::open(&self.sysfs).and_then(|rdma| rdma.netns_mode());
        match mode {
            Ok(mode) => Some(mode),
            Err(rdma::Error::TooOld { .. }) => None,
            Err(error) => {
                errors.push(CollectError::new(Collector::Mode, &error));
                None
            }
        }
    }

    fn run_collection(&mut self, former: &Arc<[Entry]>, errors: &mut Vec<CollectError>) -> CollectionOutput {
        let host = match NetNs::current() {
            Ok(host) => Arc::new(host),
            Err(error) => {
                errors.push(CollectError::new(Collector::Devices, &error));
                return CollectionOutput::default();
            }
        };
        let places = self.netns_targets(&host, errors);
        let ages = self.readers.values().filter_map(DeviceReader::oldest_gids).collect();
        let gids = self.gids.plan(ages, former, &self.pods.entries);
        let options = CollectionOptions {
            number: self.collections,
            node: self.sysfs.clone(),
            host,
            collectors: self.settings.collectors,
            devices: self.settings.devices.clone(),
            timeout: self.settings.device_timeout,
            gids,
            files: self.files.clone(),
            listed: self.listed.clone(),
            listed_before: self.lists.due_before(self.listed.times()),
            physical: self.physical.clone(),
            workers: thread::available_parallelism().map_or(2, |cpus| cpus.get().clamp(2, 4)),
        };
        work_queue::collect(places, std::mem::take(&mut self.readers), options, self.pending.clone())
    }

    /// Returns the host namespace and those of pods and processes with exclusive devices, each once.
    fn netns_targets(&mut self, host: &NetNs, errors: &mut Vec<CollectError>) -> Vec<Arc<NetnsTarget>> {
        let node = self.places.get(&host.id()).filter(|kept| kept.is_node()).cloned();
        let mut places = vec![node.unwrap_or_else(|| Arc::new(NetnsTarget::node(host, &self.sysfs)))];
        let of_pods =
            self.pods.entries.iter().filter_map(|entry| NetnsTarget::of(entry, &self.settings.root));
        let of_pods: Vec<NetnsTarget> = of_pods.collect();
        self.search_namespaces(host, &of_pods, errors);
        for place in of_pods.into_iter().chain(self.discovery.targets(&self.processes, &self.pods)) {
            if places.iter().all(|other| other.id != place.id) {
                let kept = self.places.get(&place.id).filter(|kept| kept.is_same(&place));
                places.push(kept.cloned().unwrap_or_else(|| Arc::new(place)));
            }
        }
        self.places = places.iter().map(|place| (place.id, place.clone())).collect();
        places
    }

    /// Searches the namespaces of devices that neither the host nor a pod of the pod map has.
    fn search_namespaces(&mut self, host: &NetNs, of_pods: &[NetnsTarget], errors: &mut Vec<CollectError>) {
        let node = NodeView {
            root: &self.settings.root,
            sysfs: &self.sysfs,
            host,
            devices: &self.settings.devices,
            entries: &self.pods.entries,
        };
        let known = of_pods.iter().map(|place| place.id).collect();
        if let Err(error) = self.discovery.search(&node, &known) {
            errors.push(CollectError::new(Collector::Devices, &error));
        }
        errors.extend(self.discovery.error());
    }

    /// Finds the owners of objects and traffic, and updates the counter history.
    fn attribute(
        &mut self,
        readings: Vec<DeviceReading>,
        sampled: psn::SamplerOutput,
        errors: &mut Vec<CollectError>,
    ) -> (Vec<DeviceSnapshot>, Vec<CgroupUsage>) {
        // Without devices there is nothing to attribute.
        let sees_processes = !readings.is_empty() && self.sees_processes(errors);
        let mut resolver = HolderResolver::new(&self.processes, &self.pods, &mut self.context_owners, errors);
        let mut usages = Vec::with_capacity(readings.len());
        for reading in &readings {
            let can = sees_processes || !reading.on_node;
            usages.push(if can { resolver.usage(reading) } else { None });
            if can && let Some((sets, objects)) = reading.counter_sets() {
                let pairs = resolver.of_queue_pairs(reading.device.index, objects);
                self.counter_sets
                    .enter(&reading.device, sets, |set| counter_sets::pod(set, &mut resolver, &pairs));
            }
        }
        let cgroups = std::mem::take(&mut resolver.cgroups);
        let mut devices = Vec::with_capacity(readings.len());
        for (reading, usage) in readings.into_iter().zip(usages) {
            let owner: PortUser = match (&reading.pod, reading.on_node) {
                (Some(pod), false) => Some((pod.clone(), Attribution::ExclusiveNetns)),
                (None, false) => None,
                _ => {
                    usage.as_ref().and_then(|u| u.sole_user()).map(|pod| (pod.clone(), Attribution::SoleUser))
                }
            };
            devices.push(self.update_history(reading, usage, &owner, errors));
        }
        let connected = self.add_sampled_packets(sampled);
        self.counter_sets.publish_totals(&mut self.layouts, &mut self.history);
        self.drop_gone_devices(&devices, connected);
        (devices, self.cgroup_use(&cgroups, errors))
    }

    /// Adds a reading of a device's counters to the history.
    fn update_history(
        &mut self,
        reading: DeviceReading,
        usage: Option<DeviceUsage>,
        owner: &PortUser,
        errors: &mut Vec<CollectError>,
    ) -> DeviceSnapshot {
        let (index, name) = (reading.device.index, &*reading.device.name);
        let device = (name, reading.facts.function.as_deref().unwrap_or(name));
        let mut port_counters = Vec::with_capacity(reading.ports.len());
        for port in &reading.ports {
            let key = (index, port.port.port);
            let mut counter_values =
                CounterValues::of_port(port, &mut self.layouts, self.history.layout(key));
            self.history.update_port(key, device, owner.clone(), &mut counter_values);
            errors.extend(counter_values.layout.errors.iter().cloned());
            port_counters.push(counter_values);
        }
        let counter_values = (!reading.counters.is_empty()).then(|| {
            let last = self.history.layout((index, 0));
            let mut counter_values = CounterValues::of_device(&reading.counters, &mut self.layouts, last);
            self.history.update_port((index, 0), device, None, &mut counter_values);
            counter_values
        });
        DeviceSnapshot { reading, usage, port_counters, counter_values }
    }

    /// Whether the processes of pods are visible. In another PID namespace their objects have no owner, which is reported as an
    /// error.
    fn sees_processes(&self, errors: &mut Vec<CollectError>) -> bool {
        if !self.settings.collectors.has(Collector::Resources) {
            return false;
        }
        match self.processes.sees_every_process() {
            Ok(true) => true,
            Ok(false) => {
                let what = "the processes of pods are not visible: run silkraild in the node's PID namespace \
                            (hostPID: true), or disable the collector with --disable=resources";
                errors.push(CollectError {
                    collector: Collector::Resources,
                    reason: ErrorReason::Permission,
                    what: what.to_owned(),
                });
                false
            }
            Err(error) => {
                errors.push(CollectError::new(Collector::Resources, &error));
                false
            }
        }
    }

    /// Adds the packets that were sampled in the background to the pods' accounts. Returns the pods with a connection.
    fn add_sampled_packets(&mut self, sampled: psn::SamplerOutput) -> Vec<PodInfo> {
        for ((pod, device, port), packets) in sampled.packets {
            let counter_values = packets.counter_values(&mut self.layouts);
            self.history.add_to_account(
                self.pods.named(&pod),
                (device, port, Attribution::Psn),
                &counter_values,
            );
        }
        sampled.pods.iter().map(|pod| (*self.pods.named(pod)).clone()).collect()
    }

    /// Removes devices that are gone, and pods that are neither known to the node nor use a device.
    fn drop_gone_devices(&mut self, devices: &[DeviceSnapshot], connected: Vec<PodInfo>) {
        let there: HashSet<u32> = devices.iter().map(|device| device.reading.device.index).collect();
        self.context_owners.forget(|device| there.contains(&device));
        let names: HashSet<&str> = devices.iter().map(|device| &*device.reading.device.name).collect();
        let mut living = self.pods.all();
        living.extend(connected);
        let users = devices.iter().filter_map(|device| device.usage.as_ref());
        living.extend(users.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            crate::ResourceHolder::Pod(pod) => Some((**pod).clone()),
            _ => None,
        }));
        let in_pods: HashSet<&PodInfo> = devices.iter().filter_map(|d| d.reading.pod.as_deref()).collect();
        let lives = |pod: &PodInfo| living.contains(pod) || in_pods.contains(pod);
        self.history.forget(lives);
        self.history.forget_devices(|name| names.contains(name));
        self.counter_sets.forget(lives, |index| there.contains(&index));
    }

    fn cgroup_use(
        &self,
        texts: &BTreeMap<Arc<PodInfo>, String>,
        errors: &mut Vec<CollectError>,
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
                Err(error) => errors.push(CollectError::new(Collector::Cgroup, &error)),
            }
        }
        found
    }
}

/// Removes duplicates: a device that was moved during the collection was found in two namespaces. A reading with ports is
/// preferred.
fn deduplicate(mut readings: Vec<DeviceReading>) -> Vec<DeviceReading> {
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
