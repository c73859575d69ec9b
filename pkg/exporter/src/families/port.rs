//! Ports: state, speed, GID table.

use exposition::{Exposition, Labels};
use rdma::PortState;

use super::{gauge, port_labels};
use crate::{DeviceReading, PortReading};

/// Bytes per second of one Mb/s.
const BYTES_PER_MEGABIT: u64 = 1_000_000 / 8;

pub(super) fn tell(families: &mut Exposition, reading: &DeviceReading, node: &Labels) {
    for port in &reading.ports {
        let labels = port_labels(node, reading, port.port.port);
        state(families, reading, port, &labels);
        speed(families, reading, port, &labels);
        if let Some(gids) = &port.gids {
            gauge(families, "rdma_port_gid_entries", "Entries in use of the port's GID table.")
                .add(labels.clone(), gids.entries.len() as u64);
            gauge(families, "rdma_port_gid_capacity", "Entries the port's GID table has room for.")
                .add(labels, gids.capacity as u64);
        }
    }
}

fn state(families: &mut Exposition, reading: &DeviceReading, port: &PortReading, labels: &Labels) {
    let netns = reading.netns();
    let info = labels
        .more()
        .with_some("netdev", port.port.link_name.as_deref())
        .with("link_layer", port.link_layer())
        .with("state", &port.state())
        .with("physical_state", &port.physical_state())
        .with("netns", netns)
        .done();
    gauge(families, "rdma_port_info", "What a port is. Always 1.").add(info, true);
    let labels = labels.more().with("is_vf", is_vf(reading)).with("netns", netns).done();
    gauge(families, "rdma_port_up", "Whether the port is active.")
        .add(labels.clone(), port.port.state == PortState::Active);
    let help = "Logical state: 1 down, 2 init, 3 armed, 4 active, 5 active but deferring.";
    gauge(families, "rdma_port_state", help).add(labels.clone(), u64::from(u8::from(port.port.state)));
    let help = "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovery, 7 test.";
    gauge(families, "rdma_port_physical_state", help).add(labels, u64::from(u8::from(port.port.phys_state)));
}

fn speed(families: &mut Exposition, reading: &DeviceReading, port: &PortReading, labels: &Labels) {
    let Some(speed) = port.speed.map(u64::from) else { return };
    gauge(families, "rdma_port_speed_bytes_per_second", "Speed of the port's link; of a VF its PF's.")
        .add(labels.and("is_vf", is_vf(reading)), speed * BYTES_PER_MEGABIT);
    gauge(families, "rdma_vport_speed_mbps", "Speed of the port's link in Mb/s; of a VF its PF's.")
        .add(labels.clone(), speed);
}

pub(super) fn is_vf(reading: &DeviceReading) -> &'static str {
    if reading.facts.is_vf { "true" } else { "false" }
}
