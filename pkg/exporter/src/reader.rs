//! Reads one device in each collection.

mod bond;
mod port;
mod progress;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use rdma::{Device, LinkLayer, resource::ResourceCounts};

use crate::{
    CmCounters, CollectError, Collector, DeviceInfo, PhysicalState, PortReading,
    collect_error::BoxError,
    costly_readings::FormerReading,
    counter_files::{CounterFiles, OpenFileBudget},
    counter_sets,
    device_resources::{self, ListedResources},
    netns_sockets::NetnsSockets,
    netns_target::SysfsView,
    port_rate,
    traffic_class::TrafficClass,
};

pub(crate) use self::progress::{DeviceTask, ReadProgress};
use self::{port::PortReader, progress::ReadStages};

/// The state of a device between collections: open files, and properties that do not change.
#[derive(Debug)]
pub(crate) struct DeviceReader {
    /// The name of the device when its files were opened.
    pub(crate) name: String,
    pub(crate) facts: Arc<DeviceInfo>,
    view: Arc<SysfsView>,
    dir: PathBuf,
    files: CounterFiles,
    traffic_class: TrafficClass,
    budget: OpenFileBudget,
    ports: BTreeMap<u32, PortReader>,
}

impl DeviceReader {
    /// Opens the files of a device. `None` if the device or its network namespace is gone.
    pub(crate) fn open(
        session: &NetnsSockets,
        name: &str,
        budget: &OpenFileBudget,
        errors: &mut Vec<CollectError>,
    ) -> Result<Option<Self>, BoxError> {
        for attempt in 0..2 {
            let Some(view) = session.view()? else { return Ok(None) };
            let dir = view.sysfs().root().join("class/infiniband").join(name);
            // A device that sysfs does not have can mean that the cached sysfs shows a former namespace.
            if dir.is_dir() {
                let facts = Arc::new(DeviceInfo::read(view.sysfs(), &session.node, name));
                let files = CounterFiles::open(&dir.join("hw_counters"), budget, errors);
                let budget = budget.clone();
                let traffic_class = TrafficClass::open(&dir, 1);
                return Ok(Some(Self {
                    name: name.to_owned(),
                    facts,
                    view,
                    dir,
                    files,
                    traffic_class,
                    budget,
                    ports: BTreeMap::new(),
                }));
            }
            if attempt == 0 {
                session.place.forget_view();
            }
        }
        Ok(None)
    }

    /// Returns the time when the oldest of its GID tables was read.
    pub(crate) fn oldest_gids(&self) -> Option<Instant> {
        self.ports.values().filter_map(|port| port.gids.as_ref()).map(|(read, _)| *read).min()
    }

    /// Reads the device, stage by stage, into `progress`.
    pub(crate) fn read(
        &mut self,
        session: &mut NetnsSockets,
        assignment: &DeviceTask,
        progress: &Mutex<ReadProgress>,
    ) {
        let mut steps = ReadStages { progress, stages: assignment.stages };
        let device = &assignment.device;
        // The other values belong to ports, so ports are read first.
        let ports = steps.take(Collector::Ports, |t| ports(session, device, t)).unwrap_or_default();
        if let Some(port) = ports.iter().find(|port| port.device_name != device.name) {
            // Two devices have swapped their names: all open files belong to the other device.
            session.place.forget_devices();
            return steps.store(|reading| reading.device.name.clone_from(&port.device_name));
        }
        steps.store(|reading| reading.ports = ports.iter().cloned().map(PortReading::of).collect());
        self.sync_ports(&ports, &mut steps);
        for (at, port) in ports.iter().enumerate() {
            self.read_port(session, assignment, at, port, &mut steps);
        }
        self.read_counters(&mut steps);
        read_objects(session, assignment, &mut steps);
        // The last one, because a collection does not wait for what follows a reading that takes long.
        if session.place.is_node() && self.facts.is_physical() {
            for (at, port) in ports.iter().enumerate() {
                self.read_physical_state(session, assignment, at, port, &mut steps);
            }
        }
    }

    /// Reads the port with index `at` in the reading.
    fn read_port(
        &mut self,
        session: &mut NetnsSockets,
        assignment: &DeviceTask,
        at: usize,
        port: &rdma::Port,
        steps: &mut ReadStages<'_>,
    ) {
        let (device, number) = (&assignment.device, port.port);
        let Some(kept) = self.ports.get_mut(&number) else { return };
        if let Some(counters) =
            steps.take(Collector::HwCounters, |t| kept.hw_counters(session, device, number, t))
        {
            steps.store(|reading| reading.ports[at].hw_counters = counters);
        }
        let dir = self.dir.join(format!("ports/{number}/counters"));
        if let Some(counters) = steps.take(Collector::Counters, |t| {
            kept.files.try_again(&self.budget, t);
            kept.files.read(&dir, t)
        }) {
            steps.store(|reading| reading.ports[at].counters = counters);
        }
        if let Some((speed, statistics)) =
            steps.take(Collector::Ethtool, |t| kept.link(session, port.link_name.as_deref(), &self.view, t))
        {
            let is_infiniband = port.link_layer == LinkLayer::InfiniBand;
            let speed = speed.or_else(|| is_infiniband.then(|| port_rate::read(&self.dir, number)).flatten());
            steps.store(|reading| {
                reading.ports[at].speed = speed;
                reading.ports[at].link_statistics = statistics;
            });
        }
        let gids = steps.take(Collector::Gids, |t| {
            kept.gids(&self.view, &device.name, number, assignment.gids_before, t)
        });
        steps.store(|reading| reading.ports[at].gids = gids.flatten());
        let cm = steps.take(Collector::Cm, |t| CmCounters::read(&self.dir, number, t));
        steps.store(|reading| reading.ports[at].cm = cm.flatten());
    }

    /// Reads the physical state of a port with index `at` in the reading, unless the last one is recent.
    fn read_physical_state(
        &self,
        session: &NetnsSockets,
        task: &DeviceTask,
        at: usize,
        port: &rdma::Port,
        steps: &mut ReadStages<'_>,
    ) {
        if !task.has_reading_of(Collector::Physical) {
            return;
        }
        let key = (task.device.index, port.port);
        let former = task.physical.last(&key);
        if let Some(former) = &former {
            steps.store(|reading| reading.ports[at].physical = Some(former.value.clone()));
        }
        if former.as_ref().is_some_and(|former| former.is_recent) {
            return;
        }
        let former = former.as_ref().map(|former| &*former.value);
        let began = Instant::now();
        let link = port.link_name.as_deref().and_then(|link| link.parse().ok());
        let function = self.facts.function.as_deref();
        let state = steps.take(Collector::Physical, |t| {
            PhysicalState::read(former, &session.node, link.as_ref(), function, t)
        });
        let Some(state) = state.map(Arc::new) else { return };
        task.physical.add(key, state.clone(), began);
        steps.store(|reading| reading.ports[at].physical = Some(state));
    }

    /// Reads the counters and the traffic class of the device as a whole.
    fn read_counters(&mut self, steps: &mut ReadStages<'_>) {
        if let Some((counters, class)) = steps.take(Collector::Counters, |t| {
            (self.files.read(&self.dir.join("hw_counters"), t), self.traffic_class.read())
        }) {
            steps.store(|reading| (reading.counters, reading.traffic_class) = (counters, class));
        }
    }

    /// Opens the files of new ports, and closes those of removed ports.
    fn sync_ports(&mut self, ports: &[rdma::Port], steps: &mut ReadStages<'_>) {
        self.ports.retain(|kept, _| ports.iter().any(|port| port.port == *kept));
        for rdma::Port { port, .. } in ports {
            if !self.ports.contains_key(port) {
                let dir = self.dir.join(format!("ports/{port}/counters"));
                let files =
                    steps.take(Collector::Counters, |errors| CounterFiles::open(&dir, &self.budget, errors));
                self.ports.insert(*port, PortReader::of(files.unwrap_or_default()));
            }
        }
    }
}

fn ports(session: &mut NetnsSockets, device: &Device, errors: &mut Vec<CollectError>) -> Vec<rdma::Port> {
    match session.rdma.ports(device) {
        Ok(ports) => ports,
        Err(rdma::Error::NoSuchDevice { .. }) => {
            session.place.forget_devices();
            Vec::new()
        }
        Err(error) => {
            errors.push(CollectError::new(Collector::Ports, &error));
            Vec::new()
        }
    }
}

/// Reads the numbers of objects, the objects, and the counter sets that are bound to queue pairs.
fn read_objects(session: &mut NetnsSockets, task: &DeviceTask, steps: &mut ReadStages<'_>) {
    let device = &task.device;
    if !task.has_reading_of(Collector::Resources) {
        return;
    }
    let key = (session.place.id, device.index);
    let former = task.listed.last(&key);
    if let Some(former) = &former {
        steps.store(|reading| reading.objects = Some(former.value.objects.clone()));
    }
    let counts = steps.take(Collector::Resources, |t| resource_counts(session, device, t)).flatten();
    let Some(counts) = counts else { return };
    steps.store(|reading| reading.resources = Some(counts.clone()));
    let is_current = steps.take(Collector::Resources, |errors| {
        errors.extend(device_resources::too_many_of_a_type(&device.name, &counts));
        former.is_some_and(|former| is_current(&former, session, task, &counts, errors))
    });
    if is_current == Some(false) {
        let began = Instant::now();
        let listed =
            steps.take(Collector::Resources, |t| ListedResources::read(&session.rdma, device, counts, t));
        let listed = listed.flatten().map(Arc::new);
        // Also if the collection no longer waits: the next one has it.
        if let Some(listed) = &listed {
            task.listed.add(key, listed.clone(), began);
        }
        steps.store(|reading| reading.objects = listed.map(|listed| listed.objects.clone()));
    }
    if session.place.is_node() {
        read_counter_sets(session, task, steps);
    }
}

/// Whether objects that were listed for a former collection are still the device's.
fn is_current(
    former: &FormerReading<ListedResources>,
    session: &NetnsSockets,
    task: &DeviceTask,
    counts: &ResourceCounts,
    errors: &mut Vec<CollectError>,
) -> bool {
    if former.is_recent {
        return true;
    }
    if former.done < task.listed_before || !former.value.has_counts(counts) {
        return false;
    }
    // In the network namespace of a pod all objects are the pod's. In that of other processes each object has its own owner.
    if !session.place.is_node() && session.place.pod.is_some() {
        return true;
    }
    // The pod of a new counter set is that of its queue pairs.
    if task.stages.has(Collector::PidCounters) {
        return false;
    }
    match former.value.has_same_users(&session.rdma, &task.device) {
        Ok(has) => has,
        Err(rdma::Error::NoSuchDevice { .. }) => false,
        Err(error) => {
            errors.push(CollectError::new(Collector::Resources, &error));
            false
        }
    }
}

fn read_counter_sets(session: &NetnsSockets, task: &DeviceTask, steps: &mut ReadStages<'_>) {
    let objects = steps.reading(|reading| reading.objects.clone()).flatten();
    let Some(ports) = objects.as_deref().map(counter_sets::ports_in_use) else { return };
    let sets =
        steps.take(Collector::PidCounters, |t| counter_sets::read(&session.node, &task.device, &ports, t));
    steps.store(|reading| reading.counter_sets = sets.flatten());
}

/// Reads the numbers of objects.
fn resource_counts(
    session: &NetnsSockets,
    device: &Device,
    errors: &mut Vec<CollectError>,
) -> Option<ResourceCounts> {
    match session.rdma.resource_counts_of(device) {
        Ok(counts) => Some(counts),
        Err(rdma::Error::NoSuchDevice { .. }) => None,
        Err(error) => {
            errors.push(CollectError::new(Collector::Resources, &error));
            None
        }
    }
}
