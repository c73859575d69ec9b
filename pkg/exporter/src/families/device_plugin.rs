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
            let labels = labels.and("id", &device.id).and("reason", &device.reason);
            gauge(families, "rdma_device_plugin_device_unhealthy", help).add(labels, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::{ResourceHealth, UnhealthyDevice, families::tests::lines_with};

    #[test]
    fn each_resource_has_its_healthy_and_unhealthy_devices() {
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        let unhealthy = [("0000:af:00.2", "link_down"), ("0000:af:00.3", "gone")]
            .map(|(id, reason)| UnhealthyDevice { id: id.into(), reason: reason.into() });
        report.resources = vec![
            ResourceHealth { resource: "rdma/a".into(), healthy: 3, unhealthy: unhealthy.into() },
            ResourceHealth { resource: "rdma/b".into(), healthy: 0, unhealthy: Vec::new() },
        ];
        let expected = [
            r#"rdma_device_plugin_device_unhealthy{resource="rdma/a",id="0000:af:00.2",reason="link_down"} 1"#,
            r#"rdma_device_plugin_device_unhealthy{resource="rdma/a",id="0000:af:00.3",reason="gone"} 1"#,
            r#"rdma_device_plugin_devices{resource="rdma/a",health="healthy"} 3"#,
            r#"rdma_device_plugin_devices{resource="rdma/a",health="unhealthy"} 2"#,
            r#"rdma_device_plugin_devices{resource="rdma/b",health="healthy"} 0"#,
            r#"rdma_device_plugin_devices{resource="rdma/b",health="unhealthy"} 0"#,
        ];
        assert_eq!(lines_with(&report, "rdma_device_plugin"), expected);
    }
}
