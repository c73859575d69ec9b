//! Ports: state, speed, GID table.

use exposition::Exposition;
use rdma::PortState;

use super::{
    gauge,
    labels::{DeviceLabels, PortLabels},
};
use crate::{DeviceReading, PortReading};

/// Bytes per second of one Mb/s.
const BYTES_PER_MEGABIT: u64 = 1_000_000 / 8;

pub(super) fn tell(families: &mut Exposition, reading: &DeviceReading, known: &DeviceLabels) {
    for (port, labels) in reading.ports.iter().zip(&known.ports) {
        info(families, reading, port, labels);
        state(families, port, labels);
        speed(families, port, labels);
        if let Some(gids) = &port.gids {
            gauge(families, "rdma_port_gid_entries", "Entries in use of the port's GID table.")
                .add(labels.port.clone(), gids.entries.len() as u64);
            gauge(families, "rdma_port_gid_capacity", "Entries the port's GID table has room for.")
                .add(labels.port.clone(), gids.capacity as u64);
        }
    }
}

fn info(families: &mut Exposition, reading: &DeviceReading, port: &PortReading, labels: &PortLabels) {
    let info = labels
        .port
        .more()
        .with_some("netdev", port.port.link_name.as_deref())
        .with("link_layer", port.link_layer())
        .with("state", &port.state())
        .with("physical_state", &port.physical_state())
        .with("netns", reading.netns())
        .done();
    gauge(families, "rdma_port_info", "What a port is. Always 1.").add(info, true);
}

fn state(families: &mut Exposition, port: &PortReading, labels: &PortLabels) {
    let labels = || labels.state.clone();
    gauge(families, "rdma_port_up", "Whether the port is active.")
        .add(labels(), port.port.state == PortState::Active);
    let help = "Logical state: 1 down, 2 init, 3 armed, 4 active, 5 active but deferring.";
    gauge(families, "rdma_port_state", help).add(labels(), u64::from(u8::from(port.port.state)));
    let help = "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovery, 7 test.";
    let state = u8::from(port.port.phys_state);
    gauge(families, "rdma_port_physical_state", help).add(labels(), u64::from(state));
}

fn speed(families: &mut Exposition, port: &PortReading, labels: &PortLabels) {
    let Some(speed) = port.speed.map(u64::from) else { return };
    gauge(families, "rdma_port_speed_bytes_per_second", "Speed of the port's link; of a VF its PF's.")
        .add(labels.speed.clone(), speed * BYTES_PER_MEGABIT);
    gauge(families, "rdma_vport_speed_mbps", "Speed of the port's link in Mb/s; of a VF its PF's.")
        .add(labels.port.clone(), speed);
}
