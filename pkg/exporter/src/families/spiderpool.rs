//! The names and labels of Spiderpool's exporter, for its dashboards.

use std::sync::Arc;

use exposition::{Exposition, LabelSet, MetricType};

use crate::{
    DeviceReading, NodeSnapshot, PodInfo,
    catalogue::{CommonMetric, Direction},
    counter_values::CounterValues,
    node_snapshot::{DeviceSnapshot, Workload},
};

/// Adds the families of Spiderpool's four dashboards. Families with the same name and another label set replace those of the
/// exporter, with the labels of both.
pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot) {
    let mut theirs = Exposition::default();
    for device in &report.devices {
        let pod = device.reading.pod.as_ref();
        let owner = pod.and_then(|pod| report.pods.get(pod)).and_then(Option::as_ref);
        for (at, counter_values) in device.port_counters.iter().enumerate() {
            let labels = labels(&report.node, &device.reading, at, pod, owner);
            counters(&mut theirs, counter_values, &labels);
            traffic(&mut theirs, counter_values, &labels);
            others(&mut theirs, device, at, &labels);
        }
    }
    families.replace(theirs);
}

/// Returns the labels of the exporter and of Spiderpool.
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
        // Spiderpool compares GUIDs instead, and so takes the second port of a card for a VF.
        .with("is_root", if facts.is_vf { "false" } else { "true" });
    let labels = super::pod_labels::with_pod(labels, pod)
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

/// Formats a GUID as Spiderpool does: in reversed byte order.
fn reversed(guid: rdma::Guid) -> String {
    let bytes = guid.0.to_le_bytes();
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn counters(theirs: &mut Exposition, counter_values: &CounterValues, labels: &LabelSet) {
    for (shown, value) in counter_values.layout.shown.iter().zip(&counter_values.values) {
        let metric = &shown.metric;
        if let Some(name) = metric.family.as_ref().filter(|_| !metric.is_gauge) {
            let labels = labels.builder().with_some("priority", metric.priority.as_deref()).build();
            theirs.family(name, MetricType::Counter, &metric.help).add(labels, *value);
        }
    }
}

/// Adds `vport` counters for drivers without `vport` statistics, from the common sums. The dashboards add unicast and
/// multicast, so multicast is exposed as 0.
fn traffic(theirs: &mut Exposition, counter_values: &CounterValues, labels: &LabelSet) {
    for direction in Direction::BOTH {
        let way = if direction == Direction::Receive { "rx" } else { "tx" };
        for (unit, role) in
            [("bytes", CommonMetric::Bytes(direction)), ("packets", CommonMetric::Packets(direction))]
        {
            let unicast = format!("rdma_{way}_vport_rdma_unicast_{unit}_total");
            let is_exposed = counter_values
                .layout
                .shown
                .iter()
                .any(|shown| shown.metric.family.as_deref() == Some(&unicast));
            let Some(value) = counter_values.sum(role).filter(|_| !is_exposed) else { continue };
            let help =
                "RDMA traffic of the function; all of it is unicast if the driver does not distinguish.";
            theirs.family(&unicast, MetricType::Counter, help).add(labels.clone(), value);
            let multicast = format!("rdma_{way}_vport_rdma_multicast_{unit}_total");
            theirs.family(&multicast, MetricType::Counter, help).add(labels.clone(), 0);
        }
    }
}

fn others(theirs: &mut Exposition, device: &DeviceSnapshot, port: usize, labels: &LabelSet) {
    if let Some(speed) = device.reading.ports[port].speed {
        let help = "Speed of the port's link in Mb/s. Not a counter, despite its name.";
        theirs
            .family("rdma_vport_speed_mbps_total", MetricType::Gauge, help)
            .add(labels.clone(), u64::from(speed));
    }
    if let Some(class) = device.reading.traffic_class {
        let help = "Traffic class of all packets of the device. Not a counter, despite its name.";
        theirs.family("rdma_device_tos_total", MetricType::Gauge, help).add(labels.clone(), u64::from(class));
    }
}

#[cfg(test)]
mod tests;
