//! The names and labels of Spiderpool's exporter, for dashboards that were made for it.

use std::sync::Arc;

use exposition::{Exposition, LabelSet, MetricType};

use crate::{
    DeviceReading, NodeSnapshot, PodInfo,
    catalogue::{CommonMetric, Direction},
    counter_values::CounterValues,
    node_snapshot::{DeviceSnapshot, Workload},
};

/// The families of which Spiderpool's four dashboards ask nothing but the labels are ours under the same names; they
/// get the labels of Spiderpool here, in place of ours. The others are added.
pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot) {
    let mut theirs = Exposition::default();
    for device in &report.devices {
        let pod = device.reading.pod.as_ref();
        let owner = pod.and_then(|pod| report.pods.get(pod)).and_then(Option::as_ref);
        for (at, sheet) in device.sheets.iter().enumerate() {
            let labels = labels(&report.node, &device.reading, at, pod, owner);
            counters(&mut theirs, sheet, &labels);
            traffic(&mut theirs, sheet, &labels);
            others(&mut theirs, device, at, &labels);
        }
    }
    families.replace(theirs);
}

/// Ours and theirs.
fn labels(
    node: &str,
    reading: &DeviceReading,
    port: usize,
    pod: Option<&Arc<PodInfo>>,
    owner: Option<&Arc<Workload>>,
) -> LabelSet {
    let (device, facts, port) = (&reading.device, &reading.facts, &reading.ports[port].port);
    let labels = LabelSet::of([("node", node), ("device", &device.name)])
        .builder()
        .with_text("port", port.port)
        .with("node_name", node)
        .with("ifname", &device.name)
        .with("node_guid", &reversed(device.node_guid))
        .with("sys_image_guid", &reversed(device.sys_image_guid))
        // Not by comparing GUIDs, which takes the second port of a card for a VF.
        .with("is_root", if facts.is_vf { "false" } else { "true" });
    let labels = super::with_pod(labels, pod)
        .with_some("net_dev_name", port.link_name.as_deref())
        .with_some("rdma_parent_name", facts.pf_link.as_deref());
    let Some(owner) = owner else { return labels.build() };
    labels
        .with("owner_api_version", &owner.api_version)
        .with("owner_kind", &owner.kind)
        .with("owner_namespace", &owner.namespace)
        .with("owner_name", &owner.name)
        .build()
}

/// A GUID as Spiderpool prints it: the bytes from the last to the first.
fn reversed(guid: rdma::Guid) -> String {
    let bytes = guid.0.to_le_bytes();
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn counters(theirs: &mut Exposition, sheet: &CounterValues, labels: &LabelSet) {
    for (shown, value) in sheet.layout.shown.iter().zip(&sheet.values) {
        let metric = &shown.metric;
        if let Some(name) = metric.family.as_ref().filter(|_| !metric.is_gauge) {
            let labels = labels.builder().with_some("priority", metric.priority.as_deref()).build();
            theirs.family(name, MetricType::Counter, &metric.help).add(labels, *value);
        }
    }
}

/// Drivers without `vport` statistics have the same numbers elsewhere. The dashboards add unicast and multicast, so
/// multicast must be there.
fn traffic(theirs: &mut Exposition, sheet: &CounterValues, labels: &LabelSet) {
    for direction in Direction::BOTH {
        let way = if direction == Direction::Receive { "rx" } else { "tx" };
        for (unit, role) in
            [("bytes", CommonMetric::Bytes(direction)), ("packets", CommonMetric::Packets(direction))]
        {
            let unicast = format!("rdma_{way}_vport_rdma_unicast_{unit}_total");
            let told =
                sheet.layout.shown.iter().any(|shown| shown.metric.family.as_deref() == Some(&unicast));
            let Some(value) = sheet.sum(role).filter(|_| !told) else { continue };
            let help = "RDMA traffic of the function; unicast has all of it where the driver does not tell.";
            theirs.family(&unicast, MetricType::Counter, help).add(labels.clone(), value);
            let multicast = format!("rdma_{way}_vport_rdma_multicast_{unit}_total");
            theirs.family(&multicast, MetricType::Counter, help).add(labels.clone(), 0);
        }
    }
}

fn others(theirs: &mut Exposition, device: &DeviceSnapshot, port: usize, labels: &LabelSet) {
    if let Some(speed) = device.reading.ports[port].speed {
        let help = "Speed of the port's link in Mb/s. Not a counter, whatever its name says.";
        theirs
            .family("rdma_vport_speed_mbps_total", MetricType::Gauge, help)
            .add(labels.clone(), u64::from(speed));
    }
    if let Some(class) = device.reading.traffic_class {
        let help = "The traffic class of all packets of the device. Not a counter, whatever its name says.";
        theirs.family("rdma_device_tos_total", MetricType::Gauge, help).add(labels.clone(), u64::from(class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_printed_from_its_last_byte() {
        assert_eq!(reversed(rdma::Guid(0x0011_2233_4455_6677)), "77:66:55:44:33:22:11:00");
    }
}
