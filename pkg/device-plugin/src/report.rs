//! What a node offers, and who has it, for an operator.

use serde::Serialize;

use crate::{NodeDevice, NodeReading, ResourceDevices, ResourceMode, ResourceSpec, health};

/// The devices of a node with their resources.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The devices that resources have; one of several shared resources is there for each.
    pub devices: Vec<DeviceReport>,
    /// The other network functions, scalable functions and software RDMA devices.
    pub not_offered: Vec<ExcludedDevice>,
}

/// A device of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// The name of the resource.
    pub resource: String,
    /// Its ID: a PCI address, the name of an auxiliary device, or that of a software RDMA device.
    pub id: String,
    /// The link of its PF.
    pub pf: Option<String>,
    /// Its links in the node's network namespace.
    pub links: Vec<String>,
    /// Its RDMA devices in the node's network namespace.
    pub rdma_devices: Vec<String>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// The rail of its port in the fabric.
    pub rail: Option<u32>,
    /// Why it is unhealthy; `None` if it is healthy, or is about to be: the device plugin waits for the hold time.
    pub unhealthy: Option<String>,
    /// Who has it, if it is not in the node's network namespace.
    pub holder: Option<String>,
    /// The pods to which the kubelet has allocated it.
    pub allocated_to: Vec<String>,
    /// How many containers can share it; `None` if it is exclusive.
    pub slots: Option<u32>,
}

/// A device without a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedDevice {
    /// Its ID.
    pub id: String,
    /// Why each resource does not have it.
    pub reasons: Vec<String>,
}

impl NodeReport {
    /// Returns the report of a node with these resources.
    pub fn new(specs: &[ResourceSpec], node: &NodeReading) -> Self {
        let mut assigned = ResourceDevices::assign(specs, &node.devices);
        assigned.keep(&ResourceDevices::default(), &node.devices, &node.state.device_use);
        let of = |spec: &ResourceSpec| assigned.devices.get(&spec.name).cloned().unwrap_or_default();
        let mut devices = Vec::new();
        for spec in specs {
            devices.extend(of(spec).iter().map(|device| DeviceReport::new(device, spec, node)));
        }
        let excluded = assigned.excluded.into_iter().map(|(id, reasons)| ExcludedDevice {
            id,
            reasons: reasons.into_iter().map(|(name, reason)| format!("{name}: {reason}")).collect(),
        });
        Self { devices, not_offered: excluded.collect() }
    }
}

impl DeviceReport {
    fn new(device: &NodeDevice, spec: &ResourceSpec, node: &NodeReading) -> Self {
        let (state, resource) = (&node.state, spec.name.to_string());
        let slots = match spec.mode {
            ResourceMode::Shared { slots } => Some(slots),
            ResourceMode::Exclusive(_) => None,
        };
        // The kubelet knows the slots of a shared resource, not its devices.
        let ids: Vec<_> = match slots {
            Some(slots) => (0..slots).map(|slot| slot.to_string()).collect(),
            None => vec![device.id.clone()],
        };
        let allocated_to = ids.iter().flat_map(|id| state.device_use.allocated_to(&resource, id));
        Self {
            id: device.id.clone(),
            pf: device.pf.as_ref().and_then(|pf| Some(pf.link.as_ref()?.to_string())),
            links: device.links.iter().map(ToString::to_string).collect(),
            rdma_devices: device.rdma.clone(),
            numa_node: device.numa_node,
            rail: device.rail,
            unhealthy: health::reason(device, spec, state).map(|reason| reason.to_string()),
            holder: state.device_use.holder(device).map(|holder| holder.to_string()),
            allocated_to: allocated_to.collect(),
            slots,
            resource,
        }
    }
}
