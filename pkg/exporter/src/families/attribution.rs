//! What pods have done: the increments of a port's counters, to whom they were attributed, and how.

use exposition::{Exposition, Labels};

use super::{
    and_pod, counter,
    counters::{bytes_help, packets_help},
};
use crate::{
    Report,
    catalogue::Role,
    ledger::{Account, Ledger},
    sheet,
};

pub(super) fn tell(families: &mut Exposition, report: &Report, ledger: &Ledger, node: &Labels) {
    for (pod, accounts) in ledger.accounts() {
        for ((device, port, attribution), account) in accounts {
            let labels = node.and("device", device).and("port", &port.to_string());
            let labels = and_pod(&labels, Some(pod)).and("attribution", attribution.name());
            raw(families, account, &labels);
            canonical(families, account, &labels);
        }
    }
    unattributed(families, report, ledger, node);
}

fn raw(families: &mut Exposition, account: &Account, labels: &Labels) {
    for (metric, value) in &account.lines {
        if let Some(name) = &metric.pod_family {
            families
                .family_with(name, exposition::Kind::Counter, &metric.help)
                .add(labels.and_some("priority", metric.priority.as_deref()), *value);
        }
    }
}

fn canonical(families: &mut Exposition, account: &Account, labels: &Labels) {
    let lines = account.lines.iter().map(|(metric, value)| (&**metric, *value));
    for ((role, _), value) in sheet::roles(lines) {
        match role {
            Role::Bytes(direction) => {
                let name = format!("rdma_pod_{}_bytes_total", direction.name());
                counter(families, &name, bytes_help(direction)).add(labels.clone(), value);
            }
            Role::Packets(direction) => {
                let name = format!("rdma_pod_{}_packets_total", direction.name());
                counter(families, &name, packets_help(direction)).add(labels.clone(), value);
            }
            Role::Error(error) => {
                let help = "Errors of RDMA transport of the pod, by what went wrong.";
                counter(families, "rdma_pod_errors_total", help).add(labels.and("error", error), value);
            }
            // Congestion and pauses are the port's and the network's, whoever suffers.
            Role::Congestion(_) | Role::PauseFrames(_) | Role::PauseMicroseconds(_) | Role::Discards(_) => {}
        }
    }
}

fn unattributed(families: &mut Exposition, report: &Report, ledger: &Ledger, node: &Labels) {
    for device in report.devices.iter().filter(|device| device.reading.on_node) {
        let reading = &device.reading;
        for port in &reading.ports {
            let labels = node.and("device", &reading.device.name).and("port", &port.port.port.to_string());
            for (direction, bytes) in ledger.unattributed(reading.device.index, port.port.port) {
                let help = "RDMA bytes of a port of the node that no pod could be named for.";
                counter(families, "rdma_port_unattributed_bytes_total", help)
                    .add(labels.and("direction", direction.name()), bytes);
            }
        }
    }
}
