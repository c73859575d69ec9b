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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use crate::{
        CmCounters, DeviceSnapshot, NodeSnapshot,
        counter_layout::tests::port,
        families::tests::{device, lines_with},
    };

    #[test]
    fn messages_have_a_direction_and_a_kind() {
        let mut cm = CmCounters::default();
        (cm.sent[0], cm.received[3], cm.retries[0], cm.duplicates[5]) = (Some(7), Some(6), Some(5), Some(4));
        let mut reading = device(vec![port(&[], &[], &[]), port(&[], &[], &[])]);
        reading.ports[1].cm = Some(cm);
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        report.devices.push(DeviceSnapshot::new(reading, None));
        let expected = [
            r#"rdma_cm_duplicates_total{device="d0",port="2",message="dreq"} 4"#,
            r#"rdma_cm_messages_total{device="d0",port="2",direction="transmit",message="req"} 7"#,
            r#"rdma_cm_messages_total{device="d0",port="2",direction="receive",message="rep"} 6"#,
            r#"rdma_cm_retries_total{device="d0",port="2",message="req"} 5"#,
        ];
        assert_eq!(lines_with(&report, "rdma_cm_"), expected);
    }
}
