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
    Attribution, Collector, Collectors, DeviceReading, Owners, Pod, Reason, Report, Settings, Trouble,
    addresses::Addresses,
    board::{self, DeviceKey, Harvest, Manner, Silent},
    collector::Spent,
    counter_files::Allowance,
    counter_sets::{self, CounterSets},
    families::Teller,
    gid_schedule::GidSchedule,
    health::Health,
    layout::Layouts,
    ledger::{Ledger, Owner},
    place::Place,
    pods::Pods,
    psn::{self, Sampler},
    reader::DeviceReader,
    report::{CgroupUse, DeviceReport},
    sheet::Sheet,
    usage::{Memory, Usage, Whose},
};

/// Reads a node again and again.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    sysfs: Sysfs,
    processes: Processes,
    owners: Arc<dyn Owners>,
    pods: Pods,
    addresses: Addresses,
    places: HashMap<NetNsId, Arc<Place>>,
    readers: HashMap<DeviceKey, DeviceReader>,
    silent: Silent,
    files: Allowance,
    layouts: Layouts,
    ledger: Ledger,
    memory: Memory,
    sampler: Option<Sampler>,
    counter_sets: CounterSets,
    health: Health,
    teller: Teller,
    gids: GidSchedule,
    collections: u64,
}

impl Exporter {
    /// An exporter that has read nothing yet; with [`Collector::Psn`] it begins to, in the background and in the calling
    /// thread's network namespace. Without an API server the settings should have no [`Collector::Owners`].
    pub fn new(settings: Settings, owners: Arc<dyn Owners>) -> Self {
        Self {
            sysfs: Sysfs::at(settings.root.join("sys")),
            processes: Processes::at(&settings.root),
            pods: Pods::at(&settings.root, &settings.state_dir),
            addresses: Addresses::at(&settings.root, &settings.state_dir),
            files: Allowance::new(settings.kept_files),
            sampler: settings.collectors.has(Collector::Psn).then(|| psn::start(&settings)),
            counter_sets: CounterSets::default(),
            settings,
            owners,
            places: HashMap::new(),
            readers: HashMap::new(),
            silent: Silent::default(),
            layouts: Layouts::default(),
            teller: Teller::default(),
            gids: GidSchedule::default(),
            ledger: Ledger::default(),
            memory: Memory::default(),
            health: Health::default(),
            collections: 0,
        }
    }

    /// Reads the node. Whatever cannot be read costs only itself; nothing is waited for longer than the patience for
    /// each thing that hangs.
    pub fn collect(&mut self) -> Report {
        self.collections += 1;
        let taken = SystemTime::now();
        let mut troubles = Vec::new();
        let mut spent = Spent::default();
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
        let mut harvest = Harvest::default();
        if has_rdma {
            if self.settings.collectors.has(Collector::Owners) {
                troubles.append(&mut self.owners.troubles());
            }
            if self.settings.collectors.has(Collector::Mode) {
                mode = timed(&mut spent, Collector::Mode, || self.mode(&mut troubles));
            }
            harvest = self.harvest(&former, &mut troubles);
        }
        troubles.append(&mut harvest.troubles);
        spent.add_all(&harvest.spent);
        self.readers = harvest.readers;
        let sampled = self.sampler.as_ref().map(Sampler::take).unwrap_or_default();
        troubles.extend(sampled.troubles.iter().cloned());
        spent.add(Collector::Psn, sampled.spent);
        let readings = once(harvest.readings);
        let (devices, cgroups) = self.attribute(readings, sampled, &mut troubles);
        let ran = if has_rdma { self.settings.collectors } else { Collectors::none() };
        let outcomes = self.health.note(ran, &troubles, &spent);
        let mut report = Report {
            has_rdma,
            mode,
            devices,
            entries: self.pods.entries.clone(),
            addresses,
            outcomes,
            troubles,
            cgroups,
            errors: self.health.errors().collect(),
            ..Report::new(self.settings.node.clone(), taken)
        };
        report.name_pods(&self.ledger, &*self.owners);
        report.keep_traffic(&self.ledger);
        report.exposition = self.teller.tell(&report, &self.ledger, self.settings.spiderpool);
        report
    }

    fn mode(&self, troubles: &mut Vec<Trouble>) -> Option<NetnsMode> {
        let mode = rdma::open(&self.sysfs).and_then(|mut socket| rdma::netns_mode(&mut socket));
        match mode {
            Ok(mode) => Some(mode),
            Err(rdma::Error::TooOld { .. }) => None,
            Err(error) => {
                troubles.push(Trouble::new(Collector::Mode, &error));
                None
            }
        }
    }

    fn harvest(&mut self, former: &Arc<[Entry]>, troubles: &mut Vec<Trouble>) -> Harvest {
        let home = match NetNs::current() {
            Ok(home) => Arc::new(home),
            Err(error) => {
                troubles.push(Trouble::new(Collector::Devices, &error));
                return Harvest::default();
            }
        };
        let places = self.places(&home);
        let ages = self.readers.values().filter_map(DeviceReader::oldest_gids).collect();
        let gids = self.gids.plan(ages, former, &self.pods.entries);
        let manner = Manner {
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
        board::collect(places, std::mem::take(&mut self.readers), manner, self.silent.clone())
    }

    /// The node's namespace and those of pods that have a device to themselves, each once.
    fn places(&mut self, home: &NetNs) -> Vec<Arc<Place>> {
        let node = self.places.get(&home.id()).filter(|kept| kept.is_node()).cloned();
        let mut places = vec![node.unwrap_or_else(|| Arc::new(Place::node(home, &self.sysfs)))];
        let of_pods = self.pods.entries.iter().filter_map(|entry| Place::of(entry, &self.settings.root));
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
        sampled: psn::Harvest,
        troubles: &mut Vec<Trouble>,
    ) -> (Vec<DeviceReport>, Vec<CgroupUse>) {
        // Where there is no device, nobody uses one.
        let sees_processes = !readings.is_empty() && self.sees_processes(troubles);
        let mut whose = Whose::new(&self.processes, &self.pods, &mut self.memory, troubles);
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
            let owner: Owner = match (&reading.pod, reading.on_node) {
                (Some(pod), false) => Some((pod.clone(), Attribution::ExclusiveNetns)),
                (None, false) => None,
                _ => {
                    usage.as_ref().and_then(|u| u.sole_user()).map(|pod| (pod.clone(), Attribution::SoleUser))
                }
            };
            devices.push(self.enter(reading, usage, &owner, troubles));
        }
        let connected = self.credit(sampled);
        self.counter_sets.settle(&mut self.layouts, &mut self.ledger);
        self.forget_the_gone(&devices, connected);
        (devices, self.cgroup_use(&cgroups, troubles))
    }

    /// Enters a device's counters into the ledger.
    fn enter(
        &mut self,
        reading: DeviceReading,
        usage: Option<Usage>,
        owner: &Owner,
        troubles: &mut Vec<Trouble>,
    ) -> DeviceReport {
        let (index, name) = (reading.device.index, &reading.device.name);
        let mut sheets = Vec::with_capacity(reading.ports.len());
        for port in &reading.ports {
            let key = (index, port.port.port);
            let mut sheet = Sheet::of_port(port, &mut self.layouts, self.ledger.layout(key));
            self.ledger.enter(key, name, owner.clone(), &mut sheet);
            troubles.extend(sheet.layout.troubles.iter().cloned());
            sheets.push(sheet);
        }
        let sheet = (!reading.counters.is_empty()).then(|| {
            let last = self.ledger.layout((index, 0));
            let mut sheet = Sheet::of_device(&reading.counters, &mut self.layouts, last);
            self.ledger.enter((index, 0), name, None, &mut sheet);
            sheet
        });
        DeviceReport { reading, usage, sheets, sheet }
    }

    /// Objects of processes in another PID namespace have no owner: attribution would silently be empty.
    fn sees_processes(&self, troubles: &mut Vec<Trouble>) -> bool {
        if !self.settings.collectors.has(Collector::Resources) {
            return false;
        }
        match self.processes.sees_every_process() {
            Ok(true) => true,
            Ok(false) => {
                let what = "the processes of pods are not seen: run it in the node's PID namespace \
                            (hostPID: true), or switch it off with --disable=resources";
                troubles.push(Trouble {
                    collector: Collector::Resources,
                    reason: Reason::Permission,
                    what: what.to_owned(),
                });
                false
            }
            Err(error) => {
                troubles.push(Trouble::new(Collector::Resources, &error));
                false
            }
        }
    }

    /// Gives pods the packets that were counted in the background. Returns those that have a connection.
    fn credit(&mut self, sampled: psn::Harvest) -> Vec<Pod> {
        for ((pod, device, port), packets) in sampled.packets {
            let sheet = packets.sheet(&mut self.layouts);
            self.ledger.credit(self.pods.named(&pod), (device, port, Attribution::Psn), &sheet);
        }
        sampled.pods.iter().map(|pod| (*self.pods.named(pod)).clone()).collect()
    }

    /// A pod lives as long as the node knows of it, or somebody in it uses a device.
    fn forget_the_gone(&mut self, devices: &[DeviceReport], connected: Vec<Pod>) {
        let there: BTreeSet<u32> = devices.iter().map(|device| device.reading.device.index).collect();
        self.memory.forget(|device| there.contains(&device));
        let names: BTreeSet<&str> = devices.iter().map(|device| &*device.reading.device.name).collect();
        let mut living = self.pods.all();
        living.extend(connected);
        let users = devices.iter().filter_map(|device| device.usage.as_ref());
        living.extend(users.flat_map(|usage| usage.shares.keys()).filter_map(|holder| match holder {
            crate::Holder::Pod(pod) => Some((**pod).clone()),
            _ => None,
        }));
        let in_pods: BTreeSet<&Arc<Pod>> = devices.iter().filter_map(|d| d.reading.pod.as_ref()).collect();
        let lives = |pod: &Pod| living.contains(pod) || in_pods.iter().any(|other| ***other == *pod);
        self.ledger.forget(lives);
        self.ledger.forget_devices(|name| names.contains(name));
        let is_there = |index| devices.iter().any(|device| device.reading.device.index == index);
        self.counter_sets.forget(lives, is_there);
    }

    fn cgroup_use(&self, texts: &BTreeMap<Arc<Pod>, String>, troubles: &mut Vec<Trouble>) -> Vec<CgroupUse> {
        if !self.settings.collectors.has(Collector::Cgroup) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (pod, text) in texts {
            let Some(cgroup) = PodCgroup::find(&self.settings.root, text) else { continue };
            match cgroup.rdma_usage() {
                Ok(usage) => found
                    .extend(usage.into_iter().flatten().map(|usage| CgroupUse { pod: pod.clone(), usage })),
                Err(error) => troubles.push(Trouble::new(Collector::Cgroup, &error)),
            }
        }
        found
    }
}

/// Each device once: one that moved meanwhile was found in two places. The one that was read there counts.
fn once(mut readings: Vec<DeviceReading>) -> Vec<DeviceReading> {
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

fn timed<T>(spent: &mut Spent, of: Collector, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    spent.add(of, began.elapsed());
    result
}

#[cfg(test)]
mod tests;
