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
