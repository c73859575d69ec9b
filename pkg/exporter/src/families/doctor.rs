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

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use doctor_record::{DoctorRecord, ExpectedPort, RecordedFinding};

    use super::*;
    use crate::families::tests::lines_with;

    #[test]
    fn findings_are_counted_by_severity_and_problems_are_listed() {
        let finding = |id: &str, severity: &str, since| RecordedFinding {
            id: id.into(),
            severity: severity.into(),
            object: "mlx5_0".into(),
            summary: String::new(),
            since,
        };
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH);
        assert_eq!(lines_with(&report, "silkrail_"), [""; 0]);
        let port = |port, is_up| ExpectedPort { device: "mlx5_0".into(), port, is_up };
        report.doctor = Some(DoctorRecord {
            time: 100,
            findings: vec![
                finding("pfc", "error", 7),
                finding("ecn", "warning", 8),
                finding("mtu", "error", 9),
                finding("kernel", "info", 10),
            ],
            ports: vec![port(1, true), port(2, false)],
            ..DoctorRecord::default()
        });
        let labels =
            |id: &str, severity: &str| format!(r#"{{id="{id}",severity="{severity}",object="mlx5_0"}}"#);
        let (pfc, ecn, mtu) = (labels("pfc", "error"), labels("ecn", "warning"), labels("mtu", "error"));
        let expected = [
            "silkrail_doctor_findings{severity=\"error\"} 2".to_owned(),
            "silkrail_doctor_findings{severity=\"warning\"} 1".to_owned(),
            "silkrail_doctor_findings{severity=\"info\"} 1".to_owned(),
            "silkrail_doctor_last_run_timestamp_seconds 100".to_owned(),
            format!("silkrail_finding{pfc} 1"),
            format!("silkrail_finding{ecn} 1"),
            format!("silkrail_finding{mtu} 1"),
            format!("silkrail_finding_start_timestamp_seconds{pfc} 7"),
            format!("silkrail_finding_start_timestamp_seconds{ecn} 8"),
            format!("silkrail_finding_start_timestamp_seconds{mtu} 9"),
        ];
        assert_eq!(lines_with(&report, "silkrail_"), expected);
        let ports = [(1, 1), (2, 0)]
            .map(|(port, up)| format!(r#"rdma_port_expected_up{{device="mlx5_0",port="{port}"}} {up}"#));
        assert_eq!(lines_with(&report, "rdma_port_expected"), ports);
    }
}
