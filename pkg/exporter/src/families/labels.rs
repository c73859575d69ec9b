//! The labels of a device's gauges, which are cached between collections.

use exposition::{LabelSet, LabelsBuilder};

use super::with_pod;
use crate::DeviceReading;

/// The values of the label `resource`. GIDs must be last.
pub(super) const RESOURCES: [&str; 8] = ["qp", "cq", "mr", "pd", "ctx", "srq", "cm_id", "gid"];

/// The labels of a device's gauges.
#[derive(Debug)]
pub(super) struct DeviceLabels {
    /// The labels of the device, and of its pod in exclusive mode.
    pub(super) device: LabelSet,
    /// The same with each of [`RESOURCES`].
    pub(super) resources: [LabelSet; RESOURCES.len()],
    /// The labels of its ports, in the reading's order.
    pub(super) ports: Vec<PortLabels>,
}

/// The labels of a port's gauges.
#[derive(Debug)]
pub(super) struct PortLabels {
    number: u32,
    /// The labels of the port, and of its device's pod in exclusive mode.
    pub(super) port: LabelSet,
    /// The same with `is_vf` and `netns`.
    pub(super) state: LabelSet,
    /// The same with `is_vf`.
    pub(super) speed: LabelSet,
}

impl DeviceLabels {
    /// Returns the labels of a device; `known` if they are unchanged.
    pub(super) fn of(known: Option<Self>, reading: &DeviceReading, node: &LabelSet) -> Self {
        let device = with_pod(for_device(reading, node), reading.pod.as_ref()).build();
        let ports = || reading.ports.iter().map(|port| port.port.port);
        let same =
            |known: &Self| known.device == device && known.ports.iter().map(|port| port.number).eq(ports());
        known.filter(same).unwrap_or_else(|| Self {
            resources: RESOURCES.map(|resource| device.and("resource", resource)),
            ports: ports().map(|port| PortLabels::of(port, reading, node)).collect(),
            device,
        })
    }
}

impl PortLabels {
    fn of(number: u32, reading: &DeviceReading, node: &LabelSet) -> Self {
        let port = for_device(reading, node).with_text("port", number);
        let port = with_pod(port, reading.pod.as_ref()).build();
        let speed = port.and("is_vf", if reading.facts.is_vf { "true" } else { "false" });
        Self { number, state: speed.and("netns", reading.netns()), speed, port }
    }
}

fn for_device(reading: &DeviceReading, node: &LabelSet) -> LabelsBuilder {
    node.builder().with("device", &reading.device.name)
}
