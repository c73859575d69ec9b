//! Counters of ports: under the driver's names, and under names that mean the same on every driver.

use exposition::{Exposition, Kind, Labels};

use super::{counter, device_labels, port_labels};
use crate::{
    Report,
    catalogue::{Direction, Role},
    sheet::Sheet,
};

pub(super) fn tell(families: &mut Exposition, report: &Report, node: &Labels) {
    for device in &report.devices {
        for (port, sheet) in device.reading.ports.iter().zip(&device.sheets) {
            let labels = port_labels(node, &device.reading, port.port.port);
            raw(families, sheet, &labels);
            canonical(families, sheet, &labels);
        }
        raw(families, &device.sheet, &device_labels(node, &device.reading));
    }
}

fn raw(families: &mut Exposition, sheet: &Sheet, labels: &Labels) {
    for line in &sheet.lines {
        let Some(name) = &line.metric.family else { continue };
        let kind = if line.metric.is_gauge { Kind::Gauge } else { Kind::Counter };
        let labels = labels.and_some("priority", line.metric.priority.as_deref());
        families.family_with(name, kind, &line.metric.help).add(labels, line.value);
    }
}

fn canonical(families: &mut Exposition, sheet: &Sheet, labels: &Labels) {
    for ((role, priority), value) in sheet.roles() {
        let by_priority =
            |direction: Direction| labels.and("direction", direction.name()).and_some("priority", priority);
        match role {
            Role::Bytes(direction) => {
                let name = format!("rdma_port_{}_bytes_total", direction.name());
                counter(families, &name, bytes_help(direction)).add(labels.clone(), value);
            }
            Role::Packets(direction) => {
                let name = format!("rdma_port_{}_packets_total", direction.name());
                counter(families, &name, packets_help(direction)).add(labels.clone(), value);
            }
            Role::Error(error) => {
                let help = "Errors of RDMA transport, by what went wrong, on any driver.";
                counter(families, "rdma_errors_total", help).add(labels.and("error", error), value);
            }
            Role::Congestion(event) => {
                let help = "Signs of congestion: marked packets and notifications, on any driver.";
                counter(families, "rdma_congestion_events_total", help)
                    .add(labels.and("event", event), value);
            }
            Role::PauseFrames(direction) => {
                let help = "Pause frames by priority. Received: the network told this port to stop.";
                counter(families, "rdma_pfc_pause_frames_total", help).add(by_priority(direction), value);
            }
            Role::PauseMicroseconds(direction) => {
                let help = "Time in which a priority was paused. Received: this port had to stop.";
                #[expect(clippy::cast_precision_loss, reason = "285 years in microseconds fit")]
                let seconds = value as f64 / 1e6;
                counter(families, "rdma_pfc_pause_seconds_total", help).add(by_priority(direction), seconds);
            }
            Role::Discards(direction) => {
                let help = "Packets discarded by priority.";
                counter(families, "rdma_priority_discards_total", help).add(by_priority(direction), value);
            }
        }
    }
}

pub(super) fn bytes_help(direction: Direction) -> &'static str {
    match direction {
        Direction::Receive => "RDMA bytes received by the function, with headers.",
        Direction::Transmit => "RDMA bytes sent by the function, with headers.",
    }
}

pub(super) fn packets_help(direction: Direction) -> &'static str {
    match direction {
        Direction::Receive => "RDMA packets received by the function.",
        Direction::Transmit => "RDMA packets sent by the function.",
    }
}
