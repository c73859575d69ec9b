//! The node, and the health of the exporter.

use std::time::{SystemTime, UNIX_EPOCH};

use exposition::{Exposition, LabelSet};
use rdma::NetnsMode;

use super::family_type::{counter, gauge};
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    gauge(families, "rdma_exporter_build_info", "Version of the exporter. Always 1.")
        .add(node.and("version", env!("CARGO_PKG_VERSION")), true);
    gauge(
        families,
        "rdma_exporter_snapshot_timestamp_seconds",
        "Start of the last finished collection. If it is long ago, a collection hangs.",
    )
    .add(node.clone(), seconds(report.taken));
    if let Some(mode) = report.mode {
        let family =
            gauge(families, "rdma_netns_mode", "1 for the RDMA mode of the node, 0 for the other mode.");
        for each in [NetnsMode::Shared, NetnsMode::Exclusive] {
            family.add(node.and("mode", &each.to_string()), each == mode);
        }
    }
    if report.has_rdma {
        let help = "RDMA devices in network namespaces that silkraild cannot find or read: they have no other series.";
        gauge(families, "rdma_devices_unseen", help).add(node.clone(), report.unseen_devices as u64);
    }
    collectors(families, report, node);
}

fn collectors(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for (collector, outcome) in &report.outcomes {
        let labels = node.and("collector", collector.name());
        gauge(
            families,
            "rdma_scrape_collector_duration_seconds",
            "Time that a collector took, summed over all devices.",
        )
        .add(labels.clone(), outcome.spent.as_secs_f64());
        gauge(families, "rdma_scrape_collector_success", "1 if a collector read everything.")
            .add(labels.clone(), outcome.succeeded);
        if let Some(last) = outcome.last_success {
            gauge(
                families,
                "rdma_collector_last_success_timestamp_seconds",
                "Time of the last collection in which a collector read everything.",
            )
            .add(labels, seconds(last));
        }
    }
    for ((collector, reason), count) in &report.error_counts {
        let help = "Errors of a collector, by reason.";
        let labels = node.builder().with("collector", collector.name()).with("reason", reason.name()).build();
        counter(families, "rdma_scrape_errors_total", help).add(labels, *count);
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Collector, CollectorStatus, ErrorReason, families::tests::lines_with};

    #[test]
    fn a_collector_that_fails_keeps_the_time_of_its_last_success() {
        let mut report = NodeSnapshot::new("n".into(), UNIX_EPOCH + Duration::from_secs(100));
        assert_eq!(lines_with(&report, "rdma_netns"), [""; 0]);
        assert_eq!(lines_with(&report, "rdma_devices_unseen"), [""; 0], "without RDMA");
        (report.has_rdma, report.mode, report.unseen_devices) = (true, Some(NetnsMode::Exclusive), 3);
        let last_success = Some(UNIX_EPOCH + Duration::from_secs(90));
        let failed = CollectorStatus { succeeded: false, spent: Duration::from_millis(1500), last_success };
        let well = CollectorStatus { succeeded: true, spent: Duration::ZERO, last_success };
        let never = CollectorStatus { last_success: None, ..failed };
        report.outcomes =
            [(Collector::Gids, failed), (Collector::Ports, well), (Collector::Cm, never)].into();
        report.error_counts = vec![((Collector::Gids, ErrorReason::Timeout), 7)];
        for (beginning, expected) in [
            (
                "rdma_netns",
                &[r#"rdma_netns_mode{mode="shared"} 0"#, r#"rdma_netns_mode{mode="exclusive"} 1"#][..],
            ),
            ("rdma_devices_unseen", &["rdma_devices_unseen 3"]),
            ("rdma_exporter_snapshot", &["rdma_exporter_snapshot_timestamp_seconds 100"]),
            (
                "rdma_collector_last",
                &[
                    r#"rdma_collector_last_success_timestamp_seconds{collector="ports"} 90"#,
                    r#"rdma_collector_last_success_timestamp_seconds{collector="gids"} 90"#,
                ],
            ),
            (
                "rdma_scrape_collector_success",
                &[
                    r#"rdma_scrape_collector_success{collector="ports"} 1"#,
                    r#"rdma_scrape_collector_success{collector="gids"} 0"#,
                    r#"rdma_scrape_collector_success{collector="cm"} 0"#,
                ],
            ),
            (
                "rdma_scrape_collector_duration",
                &[
                    r#"rdma_scrape_collector_duration_seconds{collector="ports"} 0"#,
                    r#"rdma_scrape_collector_duration_seconds{collector="gids"} 1.5"#,
                    r#"rdma_scrape_collector_duration_seconds{collector="cm"} 1.5"#,
                ],
            ),
            ("rdma_scrape_errors", &[r#"rdma_scrape_errors_total{collector="gids",reason="timeout"} 7"#]),
        ] {
            assert_eq!(lines_with(&report, beginning), expected);
        }
    }
}
