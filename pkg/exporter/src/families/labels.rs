//! The labels of a device's gauges, which are cached between collections.

use std::sync::Arc;

use exposition::{LabelSet, LabelsBuilder};
use rdma::{Device, NodeType, Port};

use super::pod_labels::with_pod;
use crate::{DeviceInfo, DeviceReading, PodInfo, PortReading, ProcessInfo};

/// The values of the label `resource`. GIDs must be last.
pub(super) const RESOURCES: [&str; 8] = ["qp", "cq", "mr", "pd", "ctx", "srq", "cm_id", "gid"];

/// The labels of a device's gauges.
#[derive(Debug)]
pub(super) struct DeviceLabels {
    source: LabelSource,
    /// The labels of the device; with [`DeviceLabels::of`]'s `has_pod_labels` also of its pod, in exclusive mode.
    pub(super) device: LabelSet,
    /// The same with the properties of the device.
    pub(super) info: LabelSet,
    /// The labels of the device with its owner.
    pub(super) owner: LabelSet,
    /// The labels of the device with each of [`RESOURCES`].
    pub(super) resources: [LabelSet; RESOURCES.len()],
    /// The labels of its ports, in the reading's order.
    pub(super) ports: Vec<PortLabels>,
}

/// The labels of a port's gauges.
#[derive(Debug)]
pub(super) struct PortLabels {
    /// The labels of the port, as [`DeviceLabels::device`].
    pub(super) port: LabelSet,
    /// The same with the properties of the port.
    pub(super) info: LabelSet,
    /// The labels of the port with `is_vf` and `netns`.
    pub(super) state: LabelSet,
    /// The labels of the port with `is_vf`.
    pub(super) speed: LabelSet,
}

/// The part of a reading that the labels contain.
#[derive(Debug)]
struct LabelSource {
    node: LabelSet,
    device: Device,
    facts: Arc<DeviceInfo>,
    pod: Option<Arc<PodInfo>>,
    process: Option<Arc<ProcessInfo>>,
    on_node: bool,
    ports: Vec<Port>,
}

impl DeviceLabels {
    /// Returns the labels of a device; `known` if they are unchanged. `has_pod_labels` is the same for all calls.
    pub(super) fn of(
        known: Option<Self>,
        reading: &DeviceReading,
        node: &LabelSet,
        has_pod_labels: bool,
    ) -> Self {
        known.filter(|known| known.source.is_of(reading, node)).unwrap_or_else(|| {
            let pod = reading.pod.as_ref().filter(|_| has_pod_labels);
            let device = with_pod(for_device(reading, node), pod).build();
            let ports = reading.ports.iter();
            Self {
                source: LabelSource::of(reading, node),
                info: device_info(reading, &device),
                owner: device_owner(reading, node),
                resources: RESOURCES.map(|resource| device.and("resource", resource)),
                ports: ports.map(|port| PortLabels::of(port, reading, &device)).collect(),
                device,
            }
        })
    }
}

impl PortLabels {
    fn of(port: &PortReading, reading: &DeviceReading, device: &LabelSet) -> Self {
        let labels = device.builder().with_text("port", port.port.port).build();
        let speed = labels.and("is_vf", if reading.facts.is_vf { "true" } else { "false" });
        let info = port_info(reading, port, &labels);
        Self { info, state: speed.and("netns", reading.netns()), speed, port: labels }
    }
}

impl LabelSource {
    fn of(reading: &DeviceReading, node: &LabelSet) -> Self {
        Self {
            node: node.clone(),
            device: reading.device.clone(),
            facts: reading.facts.clone(),
            pod: reading.pod.clone(),
            process: reading.process.clone(),
            on_node: reading.on_node,
            ports: reading.ports.iter().map(|port| port.port.clone()).collect(),
        }
    }

    fn is_of(&self, reading: &DeviceReading, node: &LabelSet) -> bool {
        self.node == *node
            && self.device == reading.device
            && Arc::ptr_eq(&self.facts, &reading.facts)
            && (&self.pod, &self.process, self.on_node) == (&reading.pod, &reading.process, reading.on_node)
            && self.ports.iter().eq(reading.ports.iter().map(|port| &port.port))
    }
}

fn for_device(reading: &DeviceReading, node: &LabelSet) -> LabelsBuilder {
    node.builder().with("device", &reading.device.name)
}

fn device_info(reading: &DeviceReading, labels: &LabelSet) -> LabelSet {
    let (device, facts) = (&reading.device, &reading.facts);
    let numa_node = facts.numa_node.map(|node| node.to_string());
    labels
        .builder()
        .with_some("driver", facts.driver.as_deref())
        .with_some("fw_version", device.fw_version.as_deref())
        .with_some("board_id", facts.board_id.as_deref())
        .with("node_guid", &device.node_guid.to_string())
        .with("sys_image_guid", &device.sys_image_guid.to_string())
        .with_some("pci_address", facts.function.as_deref())
        .with_some("numa_node", numa_node.as_deref())
        .with("is_vf", if facts.is_vf { "true" } else { "false" })
        .with_some("pf_device", facts.pf_device.as_deref())
        .with_some("pf_netdev", facts.pf_link.as_deref())
        .with_some("node_type", device.node_type.map(node_type))
        .with_some("protocol", device.protocol.as_deref())
        .build()
}

/// Every device has one, so that a join with it omits none.
fn device_owner(reading: &DeviceReading, node: &LabelSet) -> LabelSet {
    let (owner, process) = match (&reading.pod, &reading.process) {
        (Some(_), _) => ("pod", None),
        (None, _) if reading.on_node => ("host", None),
        (None, Some(process)) => ("process", Some(process)),
        (None, None) => ("unknown", None),
    };
    with_pod(for_device(reading, node), reading.pod.as_ref())
        .with("owner", owner)
        .with_some("command", process.map(|process| process.command.as_str()))
        .with_some("cgroup", process.map(|process| process.cgroup.as_str()))
        .build()
}

fn node_type(kind: NodeType) -> &'static str {
    match kind {
        NodeType::Ca => "ca",
        NodeType::Switch => "switch",
        NodeType::Router => "router",
        NodeType::Rnic => "rnic",
        NodeType::Usnic => "usnic",
        NodeType::UsnicUdp => "usnic_udp",
        _ => "unspecified",
    }
}

fn port_info(reading: &DeviceReading, port: &PortReading, labels: &LabelSet) -> LabelSet {
    labels
        .builder()
        .with_some("netdev", port.port.link_name.as_deref())
        .with("link_layer", port.link_layer())
        .with("state", &port.state())
        .with("physical_state", &port.physical_state())
        .with("netns", reading.netns())
        .build()
}
