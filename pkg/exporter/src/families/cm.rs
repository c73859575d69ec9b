//! Messages of the connection manager.

use exposition::Exposition;

use super::{family_type::counter, labels::DeviceLabels};
use crate::{DeviceReading, cm_counters::MESSAGES};

pub(super) fn write(families: &mut Exposition, devices: &[(&DeviceReading, &DeviceLabels)]) {
    for (reading, known) in devices {
        for (port, labels) in reading.ports.iter().zip(&known.ports) {
            let Some(cm) = &port.cm else { continue };
            let groups = [
                ("rdma_cm_messages_total", Some("transmit"), &cm.sent),
                ("rdma_cm_messages_total", Some("receive"), &cm.received),
                ("rdma_cm_retries_total", None, &cm.retries),
                ("rdma_cm_duplicates_total", None, &cm.duplicates),
            ];
            for (name, direction, values) in groups {
                for (message, value) in MESSAGES.iter().zip(values) {
                    let Some(value) = value else { continue };
                    let labels =
                        labels.port.builder().with_some("direction", direction).with("message", message);
                    counter(families, name, help(name)).add(labels.build(), *value);
                }
            }
        }
    }
}

fn help(name: &str) -> &'static str {
    match name {
        "rdma_cm_messages_total" => {
            "Messages of the connection manager; transmit: with those sent again; receive: with duplicates."
        }
        "rdma_cm_retries_total" => "Messages of the connection manager sent again, because no reply came.",
        _ => "Messages of the connection manager received again.",
    }
}
