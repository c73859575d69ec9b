//! The devices that silkraild offers to the kubelet.

use exposition::{Exposition, LabelSet};

use super::family_type::gauge;
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for resource in &report.resources {
        let labels = node.and("resource", &resource.resource);
        let help = "Devices of a resource that silkraild offers to the kubelet.";
        for (health, number) in [("healthy", resource.healthy), ("unhealthy", resource.unhealthy.len())] {
            let labels = labels.and("health", health);
            gauge(families, "rdma_device_plugin_devices", help).add(labels, number as u64);
        }
        let help = "A device of a resource that is not offered, with the reason.";
        for device in &resource.unhealthy {
            let labels = labels.and("id", &device.id).and("reason", device.reason);
            gauge(families, "rdma_device_plugin_device_unhealthy", help).add(labels, 1);
        }
    }
}
