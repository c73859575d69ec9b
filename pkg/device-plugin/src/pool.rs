//! A resource with its devices, as the kubelet uses it.

mod device_nodes;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use kubelet_api::deviceplugin::ContainerAllocateResponse;
use kubelet_plugin::{Device, DeviceList, Resource, ResourceError};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{
    Allocation, DeviceInfoDirectory, Holder, NodeDevice, NodeReader, NodeState, PodFiles, ResourceMode,
    ResourceSpec,
    health::{self, HealthChange, HealthHistory},
    pod_use::PodUse,
    preferred::{self, Candidate, PfPolicy},
};

/// The settings that all resources of a node share.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Where devices and their use are read.
    pub node: NodeReader,
    /// Whether containers get `umadN` and `issmN`.
    pub has_management: bool,
    /// How the devices of a container are distributed over PFs.
    pub policy: PfPolicy,
    /// How long a device must be well before it is healthy again.
    pub hold: Duration,
    /// The files that tell containers about their devices; `None` if they cannot be written.
    pub pod_files: Option<PodFiles>,
    /// The files that tell Multus about devices; `None` if they cannot be written.
    pub device_info: Option<DeviceInfoDirectory>,
}

/// A resource with its devices.
#[derive(Debug)]
pub struct ResourcePool {
    spec: ResourceSpec,
    options: PoolOptions,
    state: Mutex<PoolState>,
    list: watch::Sender<DeviceList>,
}

#[derive(Debug)]
struct PoolState {
    devices: Vec<NodeDevice>,
    node: NodeState,
    health: HealthHistory,
    /// The device nodes that containers were given, by ID.
    allocated: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// The longest ID that the kubelet accepts.
const MAX_ID: usize = 63;

/// How long a device may take to return from its former pod. The kubelet admits no other pod meanwhile.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);
const RETURN_INTERVAL: Duration = Duration::from_millis(20);

impl ResourcePool {
    /// Creates a resource without devices.
    pub fn new(spec: ResourceSpec, options: PoolOptions) -> Self {
        let health = HealthHistory::new(options.hold);
        let (devices, node) = (Vec::new(), NodeState::default());
        let state = PoolState { devices, node, health, allocated: BTreeMap::new() };
        Self { spec, options, state: Mutex::new(state), list: watch::Sender::new(Vec::new()) }
    }

    /// Returns its configuration.
    pub fn spec(&self) -> &ResourceSpec {
        &self.spec
    }

    /// Replaces the devices, at a time, and tells the kubelet if its list has changed. Returns the devices whose health has
    /// changed.
    pub fn update(&self, now: Instant, devices: &[NodeDevice], node: &NodeState) -> Vec<HealthChange> {
        let mut state = self.state();
        let devices = devices.iter().filter(|device| device.id.len() <= MAX_ID);
        state.devices = devices.cloned().collect();
        state.node = node.clone();
        let reason = |device: &NodeDevice| (device.id.clone(), health::reason(device, &self.spec, node));
        let reasons: Vec<_> = state.devices.iter().map(reason).collect();
        let changes = state.health.update(now, reasons);
        let list = self.device_list(&state);
        drop(state);
        self.list.send_if_modified(|present| {
            let is_changed = *present != list;
            *present = list;
            is_changed
        });
        changes
    }

    /// Writes the device information files of the devices that pods have, unless a killed process has left them, and removes the
    /// others that it has left.
    pub fn begin(&self) {
        let Some(directory) = self.options.device_info.as_ref().filter(|_| self.is_exclusive()) else {
            return;
        };
        let (state, resource) = (self.state(), self.spec.name.to_string());
        if !state.node.device_use.is_known() {
            return;
        }
        let is_allocated = |device: &&NodeDevice| state.node.device_use.is_allocated(&resource, &device.id);
        let (allocated, free): (Vec<_>, Vec<_>) = state.devices.iter().partition(is_allocated);
        directory.remove(&self.spec, free.iter().map(|device| &device.id));
        // The RDMA device of a pod is not known here, but in the file that Allocate wrote.
        directory
            .write(&self.spec, allocated.into_iter().filter(|device| !directory.has(&self.spec, &device.id)));
    }

    /// Removes the device information files.
    pub fn end(&self) {
        if let Some(directory) = &self.options.device_info {
            directory.remove(&self.spec, self.state().devices.iter().map(|device| &device.id));
        }
    }

    /// Returns the number of its devices; several containers may share one.
    pub fn number_of_devices(&self) -> usize {
        self.state().devices.len()
    }

    /// Returns the IDs of its unhealthy devices, each with the reason as the value of a label.
    pub fn unhealthy(&self) -> Vec<(String, &'static str)> {
        let state = self.state();
        state.health.unhealthy().map(|(id, reason)| (id.to_owned(), reason.label())).collect()
    }

    /// Returns when a device may become healthy again.
    pub fn next_change(&self) -> Option<Instant> {
        self.state().health.next_change()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_exclusive(&self) -> bool {
        matches!(self.spec.mode, ResourceMode::Exclusive(_))
    }

    /// Reads the devices that a container gets, once all have returned from their former pods. The kubelet may allocate a
    /// device as soon as the containers of its pod have ended; its DEL comes later. One that does not return is not refused: the
    /// kubelet would reject the pod for ever, while it tries networks and containers again, which fail without the device.
    fn returned_devices(&self, ids: &[String]) -> Result<Vec<NodeDevice>, ResourceError> {
        let deadline = Instant::now() + RETURN_TIMEOUT;
        let mut is_waiting = false;
        loop {
            let devices = self.devices_of(ids)?;
            let holder = |device: &NodeDevice| Some((device.id.clone(), self.present_holder(device)?));
            let Some((id, holder)) = devices.iter().find_map(holder) else { return Ok(devices) };
            if Instant::now() >= deadline {
                let (resource, waited) = (&self.spec.name, RETURN_TIMEOUT.as_secs());
                warn!(%resource, device = id, "{holder} still has it after {waited} s; its next pod waits for it");
                return Ok(devices);
            }
            if !is_waiting {
                info!(resource = %self.spec.name, device = id, "{holder} still has it: Allocate waits");
                is_waiting = true;
            }
            thread::sleep(RETURN_INTERVAL);
        }
    }

    /// Checks that no pod has one of the devices as another resource.
    fn check_allocations(&self, ids: &[String]) -> Result<(), ResourceError> {
        let (state, resource) = (self.state(), self.spec.name.to_string());
        for id in ids.iter().filter(|_| self.is_exclusive()) {
            if let Some(other) = state.node.device_use.other_allocation(&resource, id) {
                return Err(ResourceError(format!("{resource}: {id}: {other}")));
            }
        }
        Ok(())
    }

    /// Returns who has a device that must be in the node's namespace.
    fn present_holder(&self, device: &NodeDevice) -> Option<Holder> {
        self.is_exclusive().then(|| self.state().node.device_use.holder(device)).flatten()
    }

    fn device_list(&self, state: &PoolState) -> DeviceList {
        let numa_node = |device: &NodeDevice| device.numa_node.filter(|_| self.spec.has_topology);
        let mut list: DeviceList = match self.spec.mode {
            ResourceMode::Exclusive(_) => {
                let device = |device: &NodeDevice| Device {
                    id: device.id.clone(),
                    is_healthy: state.health.is_healthy(&device.id),
                    numa_node: numa_node(device),
                };
                state.devices.iter().map(device).collect()
            }
            ResourceMode::Shared { .. } if state.devices.is_empty() => Vec::new(),
            ResourceMode::Shared { slots } => {
                let is_healthy = state.devices.iter().any(|device| state.health.is_healthy(&device.id));
                let nodes: BTreeSet<_> = state.devices.iter().map(numa_node).collect();
                // A container gets all devices, so it has a node only if they have the same.
                let numa_node = nodes.first().copied().flatten().filter(|_| nodes.len() == 1);
                (0..slots).map(|slot| Device { id: slot.to_string(), is_healthy, numa_node }).collect()
            }
        };
        list.sort_by(|one, two| one.id.cmp(&two.id));
        list
    }

    /// Reads the devices that a container gets for its IDs.
    fn devices_of(&self, ids: &[String]) -> Result<Vec<NodeDevice>, ResourceError> {
        let (mut devices, mut missing) = (Vec::new(), Vec::new());
        let wanted = match self.spec.mode {
            ResourceMode::Exclusive(_) => ids.to_vec(),
            ResourceMode::Shared { .. } => self.healthy_devices(),
        };
        for id in wanted {
            match self.options.node.find(&id).map_err(error)? {
                Some(device) => devices.push(NodeDevice { selector: self.selector_of(&id), ..device }),
                None => missing.push(id),
            }
        }
        if devices.is_empty() || self.is_exclusive() && !missing.is_empty() {
            let what = if missing.is_empty() {
                "it has no healthy device".into()
            } else {
                format!("{} does not exist", missing.join(", "))
            };
            return Err(ResourceError(format!("{}: {what} on this node", self.spec.name)));
        }
        Ok(devices)
    }

    /// Returns the place of the selector that has matched a device.
    fn selector_of(&self, id: &str) -> Option<usize> {
        self.state().devices.iter().find(|device| device.id == id)?.selector
    }

    /// Returns the IDs of the devices that containers can share now.
    fn healthy_devices(&self) -> Vec<String> {
        let state = self.state();
        let ids = state.devices.iter().map(|device| device.id.clone());
        ids.filter(|id| state.health.is_healthy(id)).collect()
    }

    fn allocation(&self) -> Result<Allocation<'_>, ResourceError> {
        let has_connection_manager = self.options.node.sysfs.has_connection_manager().map_err(error)?;
        let has_management = self.options.has_management;
        Ok(Allocation { spec: &self.spec, has_connection_manager, has_management })
    }

    /// Checks that no other pod has the devices, and that the networks of the pod have those that the kubelet has allocated to it.
    fn check_networks(&self, ids: &[String], pods: &PodUse) -> Result<(), ResourceError> {
        if !self.is_exclusive() {
            return Ok(());
        }
        for device in self.devices_of(ids)? {
            if let Some(holder) = pods.other_holder(&self.spec, &device) {
                let (name, id) = (&self.spec.name, &device.id);
                return Err(ResourceError(format!("{name}: {holder} still has {id}")));
            }
        }
        let wrong = pods.wrong_device(&self.spec, ids, &self.state().node.exclusive_devices);
        wrong.map_or(Ok(()), |wrong| Err(error(wrong)))
    }
}

fn error(error: impl ToString) -> ResourceError {
    ResourceError(error.to_string())
}

impl Resource for ResourcePool {
    fn name(&self) -> String {
        self.spec.name.to_string()
    }

    fn socket_name(&self) -> String {
        self.spec.name.socket_name()
    }

    fn devices(&self) -> watch::Receiver<DeviceList> {
        self.list.subscribe()
    }

    fn preferred(
        &self,
        available: &[String],
        included: &[String],
        size: usize,
    ) -> Result<Option<Vec<String>>, ResourceError> {
        if !self.is_exclusive() {
            return Ok(None);
        }
        let (available, included): (BTreeSet<_>, BTreeSet<_>) =
            (available.iter().collect(), included.iter().cloned().collect());
        let state = self.state();
        let is_available = |device: &&NodeDevice| available.contains(&device.id);
        let (present, away): (Vec<_>, Vec<_>) =
            state.devices.iter().filter(is_available).partition(|device| {
                included.contains(&device.id) || state.node.device_use.holder(device).is_none()
            });
        // A device that has not returned from its former pod would have to be waited for.
        let devices = if present.len() >= size { present } else { [present, away].concat() };
        let candidates: Vec<_> = devices.into_iter().map(candidate).collect();
        let chosen = preferred::choose(&candidates, &included, size, self.options.policy, &state.node.gpus);
        chosen.map(Some).map_err(|error| ResourceError(format!("{}: {error}", self.spec.name)))
    }

    fn allocate(&self, ids: &[String]) -> Result<ContainerAllocateResponse, ResourceError> {
        self.check_allocations(ids)?;
        let devices = self.returned_devices(ids)?;
        let mut answer = self.allocation()?.answer(ids, &devices).map_err(error)?;
        if let Some(files) = &self.options.pod_files {
            files.add_to(&mut answer, &self.spec, ids);
        }
        if let Some(directory) = self.options.device_info.as_ref().filter(|_| self.is_exclusive()) {
            directory.write(&self.spec, &devices);
        }
        self.note(ids, &devices, &answer);
        Ok(answer)
    }

    fn check(&self, ids: &[String]) -> Result<(), ResourceError> {
        self.check_nodes(ids)?;
        let pods = PodUse::read(&self.options.node);
        if let Ok(pods) = &pods {
            self.check_networks(ids, pods)?;
        }
        if let Some(files) = &self.options.pod_files {
            files.write(&self.spec, ids, pods.as_ref());
        }
        Ok(())
    }
}

fn candidate(device: &NodeDevice) -> Candidate {
    let pf = device.own_or_pf().map_or_else(|| device.id.clone(), |pf| pf.pci.to_string());
    let path = device.path.clone().unwrap_or_default();
    Candidate { id: device.id.clone(), pf, numa_node: device.numa_node, path }
}

#[cfg(test)]
mod tests;
