//! The labels of a device's gauges, which do not change from one collection to the next.

use exposition::{LabelSet, LabelsBuilder};

use super::with_pod;
use crate::DeviceReading;

/// The kinds of objects that are counted, with GIDs at the end.
pub(super) const RESOURCES: [&str; 8] = ["qp", "cq", "mr", "pd", "ctx", "srq", "cm_id", "gid"];

/// The labels of a device's gauges.
#[derive(Debug)]
pub(super) struct DeviceLabels {
    /// The device's, and the pod's that has it to itself.
    pub(super) device: LabelSet,
    /// With each kind of objects.
    pub(super) resources: [LabelSet; RESOURCES.len()],
    /// Of its ports, in the reading's order.
    pub(super) ports: Vec<PortLabels>,
}

/// The labels of a port's gauges.
#[derive(Debug)]
pub(super) struct PortLabels {
    number: u32,
    /// The port's, and the pod's that has the device to itself.
    pub(super) port: LabelSet,
    /// With whether it is a VF's and where it is.
    pub(super) state: LabelSet,
    /// With whether it is a VF's.
    pub(super) speed: LabelSet,
}

impl DeviceLabels {
    /// The labels of a device; those of the last time, if they are still the same.
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
