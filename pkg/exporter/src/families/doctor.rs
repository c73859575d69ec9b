//! The findings of `silkrail doctor --record`.

use exposition::{Exposition, LabelSet};

use super::family_type::gauge;
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    let Some(record) = &report.doctor else { return };
    let help = "End of the last examination of silkrail doctor --record since the boot.";
    gauge(families, "silkrail_doctor_last_run_timestamp_seconds", help).add(node.clone(), record.time);
    for severity in ["error", "warning", "info"] {
        let count = record.findings.iter().filter(|finding| finding.severity == severity).count();
        let help = "Findings of the last examination of silkrail doctor, by severity.";
        gauge(families, "silkrail_doctor_findings", help).add(node.and("severity", severity), count as u64);
    }
    for port in &record.ports {
        let labels = node.builder().with("device", &port.device).with("port", &port.port.to_string()).build();
        let help =
            "Whether the site file says that the port has a cable: 1 if it has to be up, 0 if it has none.";
        gauge(families, "rdma_port_expected_up", help).add(labels, port.is_up);
    }
    for finding in record.findings.iter().filter(|finding| finding.severity != "info") {
        let labels = node
            .builder()
            .with("id", &finding.id)
            .with("severity", &finding.severity)
            .with("object", &finding.object)
            .build();
        let help = "An error or a warning of silkrail doctor. The value is the time when it was found first.";
        gauge(families, "silkrail_finding_start_timestamp_seconds", help).add(labels.clone(), finding.since);
        let help = "An error or a warning of silkrail doctor. Always 1.";
        gauge(families, "silkrail_finding", help).add(labels, true);
    }
}
