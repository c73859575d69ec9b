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
        let former = ResourceDevices::default();
        let assigned = ResourceDevices::assign(specs, &node.devices, &former, &node.state.device_use);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use kubelet_checkpoint::{KubeletCheckpoint, KubeletDirectory};
    use serde_json::json;

    use super::*;
    use crate::{Config, DeviceUse, NodeDevices, NodeState, device::fixture::vf};

    /// The kubelet's allocations, of a device or slot to a pod.
    fn allocated(allocations: &[(&str, &str, &str)]) -> DeviceUse {
        let directory = tempfile::tempdir().unwrap();
        let entry = |(pod, resource, id): &(&str, &str, &str)| json!({"PodUID": pod, "ResourceName": resource, "DeviceIDs": [id]});
        let entries: Vec<_> = allocations.iter().map(entry).collect();
        let kubelet = KubeletDirectory(directory.path().to_owned());
        fs::write(kubelet.checkpoint(), json!({"Data": {"PodDeviceEntries": entries}}).to_string()).unwrap();
        DeviceUse::new(&[], "boot", KubeletCheckpoint::read(&kubelet).ok())
    }

    #[test]
    fn every_device_has_its_resources_or_the_reasons_of_all() {
        let config = Config::parse(
            "resourceList: [{resourceName: vf, resourcePrefix: a.io, selectors: {pfNames: [p0], drivers: [mlx5_core]}}]\n\
             configList: [{resourceName: hca, rdmaHcaMax: 3, devices: [p0v0, p0v1]}]",
        )
        .unwrap();
        let away = NodeDevice { rdma: Vec::new(), links: Vec::new(), ..vf("p0", 1) };
        let unbound = NodeDevice { driver: None, ..vf("p0", 2) };
        let never_had = NodeDevice { driver: None, ..vf("p0", 3) };
        let devices = vec![NodeDevice { rail: Some(4), ..vf("p0", 0) }, away, unbound, never_had];
        let device_use = allocated(&[
            ("one", "a.io/vf", "0000:af:00.4"),
            ("two", "rdma/hca", "0"),
            ("three", "rdma/hca", "2"),
            ("other", "b.io/vf", "0000:af:00.2"),
        ]);
        let node = NodeReading {
            devices: NodeDevices { devices, ..NodeDevices::default() },
            state: NodeState { device_use, ..NodeState::default() },
            warnings: Vec::new(),
        };
        let report = NodeReport::new(&config.resources, &node);
        let facts: Vec<_> = report
            .devices
            .iter()
            .map(|it| (it.resource.as_str(), it.id.as_str(), it.slots, it.allocated_to.join(" ")))
            .collect();
        let expected = [
            ("a.io/vf", "0000:af:00.2", None, String::new()),
            ("a.io/vf", "0000:af:00.3", None, String::new()),
            ("a.io/vf", "0000:af:00.4", None, "UID one".to_owned()),
            ("rdma/hca", "0000:af:00.2", Some(3), "UID two UID three".to_owned()),
        ];
        assert_eq!(facts, expected);
        let [free, away, unbound, shared] = &report.devices[..] else { panic!("{report:?}") };
        assert_eq!(
            (free.pf.as_deref(), &free.links[..], free.rail),
            (Some("p0"), &["p0v0".to_owned()][..], Some(4))
        );
        assert_eq!((&free.rdma_devices[..], free.numa_node), (&["mlx5_2".to_owned()][..], Some(1)));
        assert_eq!((&free.holder, &shared.holder, &shared.unhealthy), (&None, &None, &None));
        assert!(free.unhealthy.as_ref().unwrap().contains("UID other as b.io/vf"), "{free:?}");
        assert_eq!(away.holder.as_deref(), Some("another network namespace"));
        assert!(away.unhealthy.as_ref().unwrap().contains("has not allocated it"), "{away:?}");
        assert_eq!(unbound.unhealthy.as_deref(), Some("it is not bound to a driver"), "kept for its pod");
        let [excluded] = &report.not_offered[..] else { panic!("{report:?}") };
        assert_eq!((excluded.id.as_str(), excluded.reasons.len()), ("0000:af:00.5", 2));
    }
}
