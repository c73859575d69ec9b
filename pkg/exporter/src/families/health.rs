//! The node, and how the exporter itself is.

use std::time::{SystemTime, UNIX_EPOCH};

use exposition::{Exposition, LabelSet};
use rdma::NetnsMode;

use super::{counter, gauge};
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    gauge(families, "rdma_exporter_build_info", "The exporter's version.")
        .add(node.and("version", env!("CARGO_PKG_VERSION")), true);
    gauge(
        families,
        "rdma_exporter_snapshot_timestamp_seconds",
        "When what is shown was read. Far behind now: a collection hangs.",
    )
    .add(node.clone(), seconds(report.taken));
    if let Some(mode) = report.mode {
        let family = gauge(families, "rdma_netns_mode", "Who sees an RDMA device: every pod, or one.");
        for each in [NetnsMode::Shared, NetnsMode::Exclusive] {
            family.add(node.and("mode", &each.to_string()), each == mode);
        }
    }
    collectors(families, report, node);
}

fn collectors(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    for (collector, outcome) in &report.outcomes {
        let labels = node.and("collector", collector.name());
        gauge(
            families,
            "rdma_scrape_collector_duration_seconds",
            "How long a collector took, added up over all devices.",
        )
        .add(labels.clone(), outcome.spent.as_secs_f64());
        gauge(families, "rdma_scrape_collector_success", "Whether a collector could read everything.")
            .add(labels.clone(), outcome.succeeded);
        if let Some(last) = outcome.last_success {
            gauge(
                families,
                "rdma_collector_last_success_timestamp_seconds",
                "When a collector could read everything for the last time.",
            )
            .add(labels, seconds(last));
        }
    }
    for ((collector, reason), count) in &report.errors {
        let help = "Things that a collector could not read, by reason.";
        let labels = node.builder().with("collector", collector.name()).with("reason", reason.name()).build();
        counter(families, "rdma_scrape_errors_total", help).add(labels, *count);
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
