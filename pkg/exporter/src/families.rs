//! The metric families of a report. Each file says what is in some of them, and why.

mod attribution;
mod counters;
mod device;
mod health;
mod pods;
mod port;
mod spiderpool;

use std::sync::Arc;

use exposition::{Exposition, Kind, Labels};

use crate::{DeviceReading, Pod, Report, ledger::Ledger};

/// Everything that is told of a node.
pub(crate) fn of(report: &Report, ledger: &Ledger, spiderpool: bool) -> Exposition {
    let mut families = Exposition::default();
    let node = Labels::of([("node", report.node.as_str())]);
    health::tell(&mut families, report, &node);
    for device in &report.devices {
        device::tell(&mut families, &device.reading, &node);
        port::tell(&mut families, &device.reading, &node);
    }
    counters::tell(&mut families, report, &node);
    pods::tell(&mut families, report, &node);
    attribution::tell(&mut families, report, ledger, &node);
    if spiderpool {
        spiderpool::tell(&mut families, report);
    }
    families
}

/// The labels of a device, and of the pod that has it to itself.
fn device_labels(node: &Labels, reading: &DeviceReading) -> Labels {
    and_pod(&node.and("device", &reading.device.name), reading.pod.as_ref())
}

/// The labels of a port, and of the pod that has the device to itself.
fn port_labels(node: &Labels, reading: &DeviceReading, port: u32) -> Labels {
    let labels = node.and("device", &reading.device.name).and("port", &port.to_string());
    and_pod(&labels, reading.pod.as_ref())
}

fn and_pod(labels: &Labels, pod: Option<&Arc<Pod>>) -> Labels {
    let Some(pod) = pod else { return labels.clone() };
    labels.and_some("pod_namespace", Some(&pod.namespace)).and("pod_name", &pod.name)
}

/// A gauge.
fn gauge<'a>(families: &'a mut Exposition, name: &str, help: &'static str) -> &'a mut exposition::Family {
    families.family(name, Kind::Gauge, help)
}

/// A counter.
fn counter<'a>(families: &'a mut Exposition, name: &str, help: &'static str) -> &'a mut exposition::Family {
    families.family(name, Kind::Counter, help)
}
