//! Devices: properties, state and number of objects.

use exposition::{Exposition, MetricType};
use rdma::PortState;
use sysfs::GidTable;

use super::labels::{DeviceLabels, RESOURCES};
use crate::DeviceReading;

pub(super) fn write(families: &mut Exposition, devices: &[(&DeviceReading, &DeviceLabels)]) {
    let mut gauge = |name, help| families.family_id(name, MetricType::Gauge, help);
    let infos = gauge("rdma_device_info", "Properties of a device. Always 1.");
    let ups = gauge("rdma_device_up", "1 if any port of the device is ACTIVE.");
    let classes = gauge(
        "rdma_device_traffic_class",
        "Traffic class of all packets of the device, as set through the vendor's driver.",
    );
    let counts = gauge(
        "rdma_resources",
        "Objects in use on the device, including the kernel's; resource=\"gid\": entries of the GID table.",
    );
    let limits = gauge("rdma_resource_limit", "Maximum number of objects of a type on the device.");
    let owners = gauge(
        "rdma_device_owner_info",
        "The owner of the network namespace of a device: the host, a pod, or a process outside of Kubernetes. Always 1.",
    );
    for (reading, known) in devices {
        families.add(infos, known.info.clone(), true);
        families.add(owners, known.owner.clone(), true);
        if !reading.ports.is_empty() {
            let up = reading.ports.iter().any(|port| port.port.state == PortState::Active);
            families.add(ups, known.device.clone(), up);
        }
        if let Some(class) = reading.traffic_class {
            families.add(classes, known.device.clone(), u64::from(class));
        }
        for (count, labels) in objects(reading).into_iter().zip(&known.resources) {
            if let Some(count) = count {
                families.add(counts, labels.clone(), count);
            }
        }
        if let Some(room) = gids(reading, |table| table.capacity) {
            families.add(limits, known.resources[RESOURCES.len() - 1].clone(), room);
        }
    }
}

/// Returns the number of objects of each of [`RESOURCES`].
fn objects(reading: &DeviceReading) -> [Option<u64>; RESOURCES.len()] {
    let gids = gids(reading, |table| table.entries.len());
    match &reading.resources {
        Some(of) => [of.qp, of.cq, of.mr, of.pd, of.ctx, of.srq, of.cm_id, gids],
        None => [None, None, None, None, None, None, None, gids],
    }
}

/// Returns the sum of a property of all GID tables; `None` if none was read.
fn gids(reading: &DeviceReading, of: impl Fn(&GidTable) -> usize) -> Option<u64> {
    let tables = reading.ports.iter().filter_map(|port| port.gids.as_deref());
    tables.map(|table| of(table) as u64).reduce(|a, b| a + b)
}
