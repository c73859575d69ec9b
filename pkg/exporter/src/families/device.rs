//! Devices: what they are, and how many objects they have.

use exposition::{Exposition, Labels};
use rdma::{NodeType, PortState};

use super::{
    gauge,
    labels::{DeviceLabels, RESOURCES},
};
use crate::DeviceReading;

pub(super) fn tell(families: &mut Exposition, reading: &DeviceReading, known: &DeviceLabels) {
    let labels = &known.device;
    info(families, reading, labels);
    if !reading.ports.is_empty() {
        let up = reading.ports.iter().any(|port| port.port.state == PortState::Active);
        gauge(families, "rdma_device_up", "Whether any port of the device is active.")
            .add(labels.clone(), up);
    }
    if let Some(class) = reading.traffic_class {
        let help = "The traffic class of all packets of the device, as the vendor's driver sets it.";
        gauge(families, "rdma_device_traffic_class", help).add(labels.clone(), u64::from(class));
    }
    objects(families, reading, known);
}

fn info(families: &mut Exposition, reading: &DeviceReading, labels: &Labels) {
    let (device, facts) = (&reading.device, &reading.facts);
    let numa_node = facts.numa_node.map(|node| node.to_string());
    let labels = labels
        .more()
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
        .done();
    gauge(families, "rdma_device_info", "What a device is. Always 1.").add(labels, true);
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

fn objects(families: &mut Exposition, reading: &DeviceReading, known: &DeviceLabels) {
    let tables = || reading.ports.iter().filter_map(|port| port.gids.as_ref());
    let gids = tables().next().map(|_| tables().map(|table| table.entries.len() as u64).sum());
    let counts = reading.resources.as_ref();
    let counts = counts.map_or([None; 7], |c| [c.qp, c.cq, c.mr, c.pd, c.ctx, c.srq, c.cm_id]);
    let help =
        "Objects in use on the device, the kernel's own too; resource=\"gid\": entries of the GID table.";
    let family = gauge(families, "rdma_resources", help);
    for (count, labels) in counts.into_iter().chain([gids]).zip(&known.resources) {
        if let Some(count) = count {
            family.add(labels.clone(), count);
        }
    }
    if gids.is_some() {
        let room: u64 = tables().map(|table| table.capacity as u64).sum();
        gauge(families, "rdma_resource_limit", "How many objects of a kind the device has room for.")
            .add(known.resources[RESOURCES.len() - 1].clone(), room);
    }
}
