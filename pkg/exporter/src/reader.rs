//! One device, as it is read again and again.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use addr::LinkName;
use rdma::{
    Device, LinkLayer,
    resource::{self, ResourceCounts},
};

use crate::{
    Collector, Collectors, Counters, DeviceReading, Facts, GidTable, Objects, PortReading, Reason, Trouble,
    collector::Spent,
    counter_files::{Allowance, CounterFiles},
    counter_sets, objects,
    place::View,
    rate,
    reading::Names,
    session::Session,
    traffic_class::TrafficClass,
    trouble::Failure,
};

/// What is kept of a device from one collection to the next: open files, and what does not change.
#[derive(Debug)]
pub(crate) struct DeviceReader {
    /// What it was called when its files were opened.
    pub(crate) name: String,
    facts: Arc<Facts>,
    view: Arc<View>,
    dir: PathBuf,
    files: CounterFiles,
    traffic_class: TrafficClass,
    allowance: Allowance,
    ports: BTreeMap<u32, PortReader>,
}

#[derive(Debug)]
struct PortReader {
    hw_names: Names,
    all_hw_names: String,
    files: CounterFiles,
    link: Option<(LinkName, ethtool::Names, Names)>,
    gids: Option<(Instant, Arc<GidTable>)>,
}

/// How far the reading of a device is. Whoever waits for it sees what it is at, and takes what there is.
#[derive(Debug)]
pub(crate) struct Progress {
    /// What is being read now.
    pub(crate) stage: Collector,
    /// What has been read, until somebody takes it.
    pub(crate) reading: Option<DeviceReading>,
    /// What could not be.
    pub(crate) troubles: Vec<Trouble>,
    /// How long each stage took.
    pub(crate) spent: Spent,
}

/// A device to read, and how.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) device: Device,
    /// The stages to go through.
    pub(crate) stages: Collectors,
    /// A GID table older than this is read again.
    pub(crate) gids_before: Instant,
}

impl Progress {
    pub(crate) fn begin(session: &Session, assignment: &Assignment, reader: &DeviceReader) -> Self {
        let reading = DeviceReading {
            place: session.place.id,
            on_node: session.place.is_node(),
            pod: session.place.pod.clone(),
            device: assignment.device.clone(),
            facts: reader.facts.clone(),
            ports: Vec::new(),
            counters: Counters::default(),
            traffic_class: None,
            resources: None,
            objects: None,
        };
        Self {
            stage: Collector::Devices,
            reading: Some(reading),
            troubles: Vec::new(),
            spent: Spent::default(),
        }
    }
}

impl DeviceReader {
    /// Opens what there is of a device. `None` if the device or its namespace is gone.
    pub(crate) fn open(
        session: &Session,
        name: &str,
        allowance: &Allowance,
        troubles: &mut Vec<Trouble>,
    ) -> Result<Option<Self>, Failure> {
        for attempt in 0..2 {
            let Some(view) = session.view()? else { return Ok(None) };
            let dir = view.sysfs.root().join("class/infiniband").join(name);
            // The kernel names devices; a name that leads elsewhere would not be a directory here.
            if dir.is_dir() {
                let facts = Arc::new(Facts::read(&view.sysfs, &session.node, name));
                let files = CounterFiles::open(&dir.join("hw_counters"), allowance, troubles);
                let allowance = allowance.clone();
                let traffic_class = TrafficClass::open(&dir, 1);
                return Ok(Some(Self {
                    name: name.to_owned(),
                    facts,
                    view,
                    dir,
                    files,
                    traffic_class,
                    allowance,
                    ports: BTreeMap::new(),
                }));
            }
            if attempt == 0 {
                session.place.forget_view();
            }
        }
        Ok(None)
    }

    /// When its oldest GID table was read.
    pub(crate) fn oldest_gids(&self) -> Option<Instant> {
        self.ports.values().filter_map(|port| port.gids.as_ref()).map(|(read, _)| *read).min()
    }

    /// Reads it, stage by stage.
    pub(crate) fn read(
        &mut self,
        session: &mut Session,
        assignment: &Assignment,
        progress: &Mutex<Progress>,
    ) {
        let mut steps = Steps { progress, stages: assignment.stages };
        let device = &assignment.device;
        // Without its ports nothing else of a device has a place.
        let ports = steps.take(Collector::Ports, |troubles| ports(session, device, troubles));
        let numbers: Vec<_> =
            ports.iter().flatten().map(|port| (port.port, port.link_name.clone())).collect();
        let is_infiniband: Vec<bool> =
            ports.iter().flatten().map(|port| port.link_layer == LinkLayer::InfiniBand).collect();
        if let Some(port) = ports.iter().flatten().find(|port| port.device_name != device.name) {
            // Two that changed their names with each other: everything that is open is the other's.
            session.place.forget_devices();
            return steps.store(|reading| reading.device.name.clone_from(&port.device_name));
        }
        steps.store(|reading| {
            reading.ports = ports.into_iter().flatten().map(PortReading::of).collect();
        });
        self.meet_ports(&numbers, &mut steps);
        for (at, (port, link)) in numbers.iter().enumerate() {
            let Some(kept) = self.ports.get_mut(port) else { continue };
            if let Some(counters) =
                steps.take(Collector::HwCounters, |t| kept.hw_counters(session, device, *port, t))
            {
                steps.store(|reading| reading.ports[at].hw_counters = counters);
            }
            let dir = self.dir.join(format!("ports/{port}/counters"));
            if let Some(counters) = steps.take(Collector::Counters, |t| {
                kept.files.try_again(&self.allowance, t);
                kept.files.read(&dir, t)
            }) {
                steps.store(|reading| reading.ports[at].counters = counters);
            }
            if let Some((speed, statistics)) =
                steps.take(Collector::Ethtool, |t| kept.link(session, link.as_deref(), &self.view, t))
            {
                let of_port = || is_infiniband[at].then(|| rate::read(&self.dir, *port)).flatten();
                let speed = speed.or_else(of_port);
                steps.store(|reading| {
                    reading.ports[at].speed = speed;
                    reading.ports[at].link_statistics = statistics;
                });
            }
            let gids = steps.take(Collector::Gids, |t| {
                kept.gids(&self.view, &assignment.device.name, *port, assignment.gids_before, t)
            });
            steps.store(|reading| reading.ports[at].gids = gids.flatten());
        }
        if let Some((counters, class)) = steps.take(Collector::Counters, |t| {
            (self.files.read(&self.dir.join("hw_counters"), t), self.traffic_class.read())
        }) {
            steps.store(|reading| (reading.counters, reading.traffic_class) = (counters, class));
        }
        let resources = steps.take(Collector::Resources, |t| resources(session, device, t)).flatten();
        let Some((resources, objects)) = resources else { return };
        let ports = objects.as_ref().filter(|_| session.place.is_node()).map(counter_sets::ports_in_use);
        steps.store(|reading| (reading.resources, reading.objects) = (Some(resources), objects));
        let Some(ports) = ports else { return };
        let sets =
            steps.take(Collector::PidCounters, |t| counter_sets::read(&session.node, device, &ports, t));
        steps.store(|reading| {
            if let Some(objects) = &mut reading.objects {
                objects.counter_sets = sets.flatten();
            }
        });
    }

    /// Opens the files of ports that are new, and closes those of ports that went.
    fn meet_ports(&mut self, numbers: &[(u32, Option<String>)], steps: &mut Steps<'_>) {
        self.ports.retain(|kept, _| numbers.iter().any(|(port, _)| port == kept));
        for (port, _) in numbers {
            if !self.ports.contains_key(port) {
                let dir = self.dir.join(format!("ports/{port}/counters"));
                let files = steps.take(Collector::Counters, |troubles| {
                    CounterFiles::open(&dir, &self.allowance, troubles)
                });
                let new = PortReader {
                    hw_names: Names::default(),
                    all_hw_names: String::new(),
                    files: files.unwrap_or_default(),
                    link: None,
                    gids: None,
                };
                self.ports.insert(*port, new);
            }
        }
    }
}

/// The stages of one reading.
struct Steps<'a> {
    progress: &'a Mutex<Progress>,
    stages: Collectors,
}

impl Steps<'_> {
    /// Goes through a stage, unless it is switched off.
    fn take<T>(&mut self, stage: Collector, work: impl FnOnce(&mut Vec<Trouble>) -> T) -> Option<T> {
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
    fn store(&self, into: impl FnOnce(&mut DeviceReading)) {
        if let Some(reading) = &mut self.lock().reading {
            into(reading);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ports(session: &mut Session, device: &Device, troubles: &mut Vec<Trouble>) -> Vec<rdma::Port> {
    match rdma::ports(&mut session.rdma, device) {
        Ok(ports) => ports,
        Err(rdma::Error::NoSuchDevice { .. }) => {
            session.place.forget_devices();
            Vec::new()
        }
        Err(error) => {
            troubles.push(Trouble::new(Collector::Ports, &error));
            Vec::new()
        }
    }
}

/// How many objects there are, and the objects.
fn resources(
    session: &mut Session,
    device: &Device,
    troubles: &mut Vec<Trouble>,
) -> Option<(ResourceCounts, Option<Objects>)> {
    match resource::resource_counts_of(&mut session.rdma, device) {
        Ok(counts) => {
            let objects = objects::read(&mut session.rdma, device, &counts, troubles);
            Some((counts, objects))
        }
        Err(rdma::Error::NoSuchDevice { .. }) => None,
        Err(error) => {
            troubles.push(Trouble::new(Collector::Resources, &error));
            None
        }
    }
}

impl PortReader {
    /// Hardware counters, in the driver's order.
    fn hw_counters(
        &mut self,
        session: &mut Session,
        device: &Device,
        port: u32,
        troubles: &mut Vec<Trouble>,
    ) -> Counters {
        let table = match rdma::hw_counter_table(&mut session.rdma, device, port) {
            Ok(table) => table,
            Err(rdma::Error::NoSuchDevice { .. }) => return Counters::default(),
            Err(error) => {
                troubles.push(Trouble::new(Collector::HwCounters, &error));
                return Counters::default();
            }
        };
        if table.values.is_empty() && !self.hw_names.is_empty() {
            // The kernel has one answer for a driver without counters and for firmware that failed.
            let what =
                format!("counters of RDMA device {}, port {port}: there were some before", device.name);
            troubles.push(Trouble { collector: Collector::HwCounters, reason: Reason::Refused, what });
            return Counters::default();
        }
        if table.all_names() != self.all_hw_names {
            self.all_hw_names = table.all_names().to_owned();
            self.hw_names = table.names().map(str::to_owned).collect();
        }
        Counters { names: self.hw_names.clone(), values: table.values }
    }

    /// Speed and statistics of the port's link.
    fn link(
        &mut self,
        session: &mut Session,
        link: Option<&str>,
        view: &View,
        troubles: &mut Vec<Trouble>,
    ) -> (Option<u32>, Counters) {
        let Some(link) = link.and_then(|link| link.parse().ok()) else {
            return (None, Counters::default());
        };
        let Some(socket) = session.ethtool() else { return (None, Counters::default()) };
        let speed = socket.speed(&link).unwrap_or_else(|error| told(error, troubles));
        let mut statistics = self.statistics(socket, &link).unwrap_or_else(|error| told(error, troubles));
        if statistics.is_empty() {
            statistics = of_members(socket, &view.sysfs, &link).unwrap_or_else(|error| told(error, troubles));
        }
        (speed, statistics)
    }

    /// The names cost as much as the values, and hardly ever change.
    fn statistics(&mut self, socket: &ethtool::Socket, link: &LinkName) -> Result<Counters, ethtool::Error> {
        if let Some((_, names, ours)) = self.link.as_ref().filter(|(kept, ..)| kept == link)
            && let Some(values) = socket.values(link, names)?
        {
            return Ok(Counters { names: ours.clone(), values });
        }
        let names = socket.names(link)?;
        let values = socket.values(link, &names)?;
        let ours: Names = names.as_slice().into();
        self.link = Some((link.clone(), names, ours.clone()));
        Ok(values.map(|values| Counters { names: ours, values }).unwrap_or_default())
    }

    /// The port's GID table, read again if it is old.
    fn gids(
        &mut self,
        view: &View,
        device: &str,
        port: u32,
        before: Instant,
        troubles: &mut Vec<Trouble>,
    ) -> Option<Arc<GidTable>> {
        if self.gids.as_ref().is_none_or(|(read, _)| *read < before) {
            match gid_table(view, device, port) {
                Ok(table) => self.gids = Some((Instant::now(), Arc::new(table))),
                Err(error) if error.is_not_found() => self.gids = None,
                Err(error) => troubles.push(Trouble::new(Collector::Gids, &error)),
            }
        }
        self.gids.as_ref().map(|(_, table)| table.clone())
    }
}

fn gid_table(view: &View, device: &str, port: u32) -> Result<GidTable, sysfs::Error> {
    Ok(GidTable {
        capacity: view.sysfs.gid_table_len(device, port)?,
        entries: view.sysfs.gids(device, port)?,
    })
}

/// The statistics of a bond's members, added up: the bond of an RDMA device that bonds in hardware has none itself. If
/// one of them does not tell, there is no sum.
fn of_members(
    socket: &ethtool::Socket,
    sysfs: &sysfs::Sysfs,
    bond: &LinkName,
) -> Result<Counters, ethtool::Error> {
    let path = sysfs.root().join("class/net").join(bond.as_str()).join("bonding/slaves");
    let members = std::fs::read_to_string(path).unwrap_or_default();
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for member in members.split_whitespace().filter_map(|member| member.parse().ok()) {
        for (name, value) in socket.statistics(&member)? {
            let total = sum.entry(name).or_default();
            *total = total.wrapping_add(value);
        }
    }
    Ok(Counters { names: sum.keys().cloned().collect(), values: sum.into_values().collect() })
}

/// A link that is gone, or has nothing to say, is no trouble.
fn told<T: Default>(error: ethtool::Error, troubles: &mut Vec<Trouble>) -> T {
    let gone = matches!(error, ethtool::Error::NoSuchLink { .. });
    if !gone && !error.is_unsupported() {
        let what = error.to_string();
        troubles.push(Trouble { collector: Collector::Ethtool, reason: Reason::Refused, what });
    }
    T::default()
}
