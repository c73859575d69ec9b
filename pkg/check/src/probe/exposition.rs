//! The record of a prober as Prometheus metrics, for the textfile collector of node_exporter.

use ::exposition::{Exposition, ExpositionFormat, LabelSet, MetricType};

use super::record::ProbeRecord;

/// The name of the metrics file in the directory of the history.
pub const FILE: &str = "probe.prom";

/// Returns the metrics of a record in the Prometheus text format. `node` is the name of this node, `time` the Unix time of the
/// last probe.
pub fn text(record: &ProbeRecord, node: &str, time: u64) -> String {
    let mut exposition = Exposition::default();
    let node = LabelSet::of([("node", node)]);
    let mut counter = |name: &str, help: &str, labels: LabelSet, value: u64| {
        exposition.family(name, MetricType::Counter, help).add(labels, value);
    };
    for (pair, rail) in &record.rails {
        let labels = node.builder().with("device", &pair.device).with("peer", &pair.peer);
        let labels = labels.with("peer_device", &pair.peer_device).build();
        counter("silkrail_probes_total", "Probes that completed.", labels.clone(), rail.probes);
        let help = "Probes during which RDMA failed: the other port did not respond.";
        counter("silkrail_probe_failures_total", help, labels.clone(), rail.failures);
        let help = "Messages of probes that were lost and sent again after the ack timeout of 67 ms.";
        counter("silkrail_probe_lost_messages_total", help, labels.clone(), rail.lost);
    }
    for ((peer, reason), count) in &record.not_made {
        let labels = node.builder().with("peer", peer).with("reason", reason.name()).build();
        counter(
            "silkrail_probes_not_made_total",
            "Probes that could not be made, by reason.",
            labels,
            *count,
        );
    }
    for (pair, rail) in record.rails.iter().filter(|(_, rail)| rail.round_trips.count() > 0) {
        let labels = node.builder().with("device", &pair.device).with("peer", &pair.peer);
        let labels = labels.with("peer_device", &pair.peer_device).build();
        let help = "Round trips of messages.";
        exposition
            .family("silkrail_probe_round_trip_seconds", MetricType::Histogram, help)
            .add_histogram(&labels, &rail.round_trips);
    }
    let help = "Unix time of the last round of probes.";
    exposition.family("silkrail_probe_timestamp_seconds", MetricType::Gauge, help).add(node, time);
    exposition.encode(ExpositionFormat::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{FailureReason, ProbedPair, RailRecord};

    #[test]
    fn every_pair_has_its_histogram_and_its_losses() {
        let mut record = ProbeRecord::default();
        let pair = |peer: &str| ProbedPair {
            device: "mlx5_0".into(),
            peer: peer.into(),
            peer_device: "mlx5_3".into(),
        };
        let mut rail = RailRecord::default();
        rail.add([3.5e-6, 0.08]);
        record.rails.insert(pair("b"), rail);
        record.rails.insert(pair("c"), RailRecord { failures: 2, ..RailRecord::default() });
        record.not_made.insert(("d".into(), FailureReason::Agent), 1);
        let text = text(&record, "a", 7);
        let labels = |peer: &str| format!(r#"node="a",device="mlx5_0",peer="{peer}",peer_device="mlx5_3""#);
        let (b, c) = (labels("b"), labels("c"));
        for line in [
            format!("silkrail_probe_round_trip_seconds_bucket{{{b},le=\"0.000004\"}} 1"),
            format!("silkrail_probe_round_trip_seconds_bucket{{{b},le=\"+Inf\"}} 2"),
            format!("silkrail_probe_round_trip_seconds_count{{{b}}} 2"),
            format!("silkrail_probe_lost_messages_total{{{b}}} 1"),
            format!("silkrail_probes_total{{{b}}} 1"),
            format!("silkrail_probes_total{{{c}}} 0"),
            format!("silkrail_probe_failures_total{{{b}}} 0"),
            format!("silkrail_probe_failures_total{{{c}}} 2"),
            r#"silkrail_probes_not_made_total{node="a",peer="d",reason="agent"} 1"#.to_owned(),
            r#"silkrail_probe_timestamp_seconds{node="a"} 7"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains(&format!("_count{{{c}}}")), "nothing was measured: {text}");
    }
}
