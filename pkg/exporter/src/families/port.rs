//! Ports: state, speed, GID table.

use exposition::{Exposition, FamilyId, MetricType};
use rdma::PortState;

use super::labels::{DeviceLabels, PortLabels};
use crate::{DeviceReading, PortReading, counter_history::CounterHistory};

/// Bytes per second of one Mb/s.
const BYTES_PER_MEGABIT: u64 = 1_000_000 / 8;

/// The IDs of the families, which are looked up once for all ports.
struct PortFamilies {
    info: FamilyId,
    up: FamilyId,
    state: FamilyId,
    physical_state: FamilyId,
    speed: FamilyId,
    megabits: FamilyId,
    gid_entries: FamilyId,
    gid_capacity: FamilyId,
    resets: FamilyId,
}

pub(super) fn write(
    families: &mut Exposition,
    devices: &[(&DeviceReading, &DeviceLabels)],
    history: &CounterHistory,
) {
    let places = PortFamilies::of(families);
    for (reading, known) in devices {
        for (port, labels) in reading.ports.iter().zip(&known.ports) {
            families.add(places.info, labels.info.clone(), true);
            state(families, &places, port, labels);
            speed(families, &places, port, labels);
            if let Some(resets) = history.resets((reading.device.index, port.port.port)) {
                families.add(places.resets, labels.port.clone(), resets);
            }
            if let Some(gids) = &port.gids {
                families.add(places.gid_entries, labels.port.clone(), gids.entries.len() as u64);
                families.add(places.gid_capacity, labels.port.clone(), gids.capacity as u64);
            }
        }
    }
}

impl PortFamilies {
    fn of(families: &mut Exposition) -> Self {
        let resets = families.family_id(
            "rdma_port_statistics_resets_total",
            MetricType::Counter,
            "How often the counters of the port fell to 0: its driver was loaded again, or its firmware was reset.",
        );
        let mut gauge = |name, help| families.family_id(name, MetricType::Gauge, help);
        Self {
            resets,
            info: gauge("rdma_port_info", "Properties of a port. Always 1."),
            up: gauge("rdma_port_up", "1 if the port is ACTIVE."),
            state: gauge(
                "rdma_port_state",
                "Logical state: 0 NOP, 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE, 5 ACTIVE_DEFER.",
            ),
            physical_state: gauge(
                "rdma_port_physical_state",
                "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 recovery, 7 test.",
            ),
            speed: gauge(
                "rdma_port_speed_bytes_per_second",
                "Speed of the port's link; for a VF, of its PF.",
            ),
            megabits: gauge(
                "rdma_vport_speed_mbps",
                "Speed of the port's link in Mb/s; for a VF, of its PF.",
            ),
            gid_entries: gauge("rdma_port_gid_entries", "Entries of the port's GID table in use."),
            gid_capacity: gauge("rdma_port_gid_capacity", "Size of the port's GID table, in entries."),
        }
    }
}

fn state(families: &mut Exposition, places: &PortFamilies, port: &PortReading, labels: &PortLabels) {
    let labels = || labels.state.clone();
    families.add(places.up, labels(), port.port.state == PortState::Active);
    families.add(places.state, labels(), u64::from(u8::from(port.port.state)));
    families.add(places.physical_state, labels(), u64::from(u8::from(port.port.phys_state)));
}

fn speed(families: &mut Exposition, places: &PortFamilies, port: &PortReading, labels: &PortLabels) {
    let Some(speed) = port.speed.map(u64::from) else { return };
    families.add(places.speed, labels.speed.clone(), speed * BYTES_PER_MEGABIT);
    families.add(places.megabits, labels.port.clone(), speed);
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use rdma::PhysState;

    use super::*;
    use crate::{
        DeviceSnapshot, NodeSnapshot,
        counter_layout::tests::port,
        families::tests::{device, lines_with},
    };

    #[test]
    fn a_port_is_up_only_if_it_is_active_and_its_speed_is_in_bytes() {
        for (state, is_up, number) in [
            (PortState::Down, 0, 1),
            (PortState::Init, 0, 2),
            (PortState::Armed, 0, 3),
            (PortState::Active, 1, 4),
            (PortState::ActiveDefer, 0, 5),
        ] {
            let mut reading = device(vec![port(&[], &[], &[])]);
            (reading.ports[0].port.state, reading.ports[0].port.phys_state) = (state, PhysState::Polling);
            reading.ports[0].speed = Some(100_000);
            let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
            report.devices.push(DeviceSnapshot::new(reading, None));
            let lines = lines_with(&report, "rdma_port_");
            let lines: Vec<_> = lines.iter().filter(|line| !line.starts_with("rdma_port_info")).collect();
            let port = r#"{device="d0",port="1",is_vf="false""#;
            let expected = [
                format!(r#"rdma_port_physical_state{port},netns="host"}} 2"#),
                format!("rdma_port_speed_bytes_per_second{port}}} 12500000000"),
                format!(r#"rdma_port_state{port},netns="host"}} {number}"#),
                format!(r#"rdma_port_up{port},netns="host"}} {is_up}"#),
            ];
            assert_eq!(lines, expected.iter().collect::<Vec<_>>());
            assert_eq!(
                lines_with(&report, "rdma_vport"),
                [r#"rdma_vport_speed_mbps{device="d0",port="1"} 100000"#]
            );
            assert_eq!(
                lines_with(&report, "rdma_device_up"),
                [format!(r#"rdma_device_up{{device="d0"}} {is_up}"#)]
            );
        }
    }
}
