//! The last result of each test as Prometheus metrics, for the textfile collector of node_exporter.

use std::collections::BTreeMap;

use ::exposition::{Exposition, ExpositionFormat, LabelSet, MetricType as Metric};

use crate::{TestKind, test_result::TestResult};

/// The name of the metrics file in the directory of the history.
pub const FILE: &str = "check_last.prom";

/// Returns the last result of each test in the Prometheus text format.
pub fn text(records: &[TestResult]) -> String {
    let last: BTreeMap<_, _> = records.iter().map(|record| (record.series(), record)).collect();
    let mut exposition = Exposition::default();
    for record in last.values() {
        add(&mut exposition, record);
    }
    exposition.encode(ExpositionFormat::Text)
}

fn add(exposition: &mut Exposition, record: &TestResult) {
    let (port, peer_port, size) =
        (record.client.port.to_string(), record.server.port.to_string(), record.test.size.to_string());
    let queue_pairs = record.test.queue_pairs.to_string();
    let mut labels = LabelSet::of([
        ("operation", record.test.operation.name()),
        ("size", &size),
        ("node", record.client.node.as_str()),
        ("device", record.client.device.as_str()),
        ("port", &port),
        ("peer_node", record.server.node.as_str()),
        ("peer_device", record.server.device.as_str()),
        ("peer_port", &peer_port),
        ("queue_pairs", &queue_pairs),
    ]);
    for (name, value) in record.test.options.names() {
        labels = labels.and(name, &value);
    }
    let mut gauge = |name, help, value: Option<f64>| {
        if let Some(value) = value {
            exposition.family(name, Metric::Gauge, help).add(labels.clone(), value);
        }
    };
    let expected = record.verdict.expected;
    match record.test.kind {
        TestKind::Bandwidth => {
            let bits = |gbps: f64| gbps * 1e9;
            gauge(
                "silkrail_check_bandwidth_bits_per_second",
                "Average bandwidth in the last test",
                record.value().map(bits),
            );
            gauge(
                "silkrail_check_bandwidth_expected_bits_per_second",
                "Minimum bandwidth for the last test to pass",
                expected.map(bits),
            );
        }
        TestKind::Latency => {
            let seconds = |us: f64| us / 1e6;
            gauge(
                "silkrail_check_latency_seconds",
                "Average latency in the last test",
                record.value().map(seconds),
            );
            gauge(
                "silkrail_check_latency_expected_seconds",
                "Maximum latency for the last test to pass",
                expected.map(seconds),
            );
            let latency = record.measurement.latency.unwrap_or_default();
            gauge(
                "silkrail_check_latency_p99_seconds",
                "99th percentile of the latency in the last test",
                latency.p99_us.map(seconds),
            );
            gauge(
                "silkrail_check_latency_p999_seconds",
                "99.9th percentile of the latency in the last test",
                latency.p999_us.map(seconds),
            );
            gauge(
                "silkrail_check_latency_p99_expected_seconds",
                "Maximum 99th percentile of the latency for the last test to pass",
                record.verdict.expected_p99.map(seconds),
            );
        }
    }
    let labels = labels.and("kind", record.test.kind.name());
    let mut gauge =
        |name, help, value: u64| exposition.family(name, Metric::Gauge, help).add(labels.clone(), value);
    gauge("silkrail_check_timestamp_seconds", "Unix time at which the last test ended", record.time);
    gauge(
        "silkrail_check_duration_seconds",
        "Measurement time of the last test",
        record.test.duration.get().into(),
    );
    if let Some(passed) = record.verdict.passed {
        gauge(
            "silkrail_check_passed",
            "Whether the last test reached its threshold (1) or not (0)",
            passed.into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        perftest::{Latency, Measurement},
        test_result::tests::record,
    };

    #[test]
    fn the_last_result_of_each_test_is_exposed_once() {
        let mut other = record(50.0);
        other.server.node = "node \"c\"\\".into();
        let mut one = record(60.0);
        one.test.queue_pairs = crate::QueuePairs::LATENCY_DEFAULT;
        let text = text(&[record(94.0), record(95.5), other, one]);
        let labels = "operation=\"write\",size=\"65536\",node=\"node-a\",device=\"mlx5_0\",port=\"1\",peer_node=\"node-b\",peer_device=\"mlx5_0\",peer_port=\"1\",queue_pairs=\"8\"";
        let line = format!("silkrail_check_bandwidth_bits_per_second{{{labels}}} 95500000000\n");
        assert!(text.contains(&line), "{text}");
        assert!(
            text.contains(&format!("silkrail_check_passed{{{labels},kind=\"bandwidth\"}} 1\n")),
            "{text}"
        );
        assert!(text.contains("peer_node=\"node \\\"c\\\"\\\\\""), "{text}");
        assert!(!text.contains("94000000000"), "{text}");
        let values = |name: &str| {
            let of_name = move |line: &&str| line.starts_with(&format!("silkrail_check_{name}{{"));
            text.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next()).collect::<Vec<_>>()
        };
        // The test with one queue pair, the one with the other node, and the last of the repeated one.
        assert_eq!(values("passed"), ["0", "0", "1"]);
        assert_eq!(values("bandwidth_expected_bits_per_second"), ["80000000000"; 3]);
        assert_eq!(values("timestamp_seconds"), ["1795200000"; 3]);
        assert_eq!(values("duration_seconds"), ["10"; 3]);
    }

    #[test]
    fn a_result_without_a_threshold_has_not_passed_or_failed() {
        let mut without = record(95.0);
        (without.verdict.passed, without.verdict.expected) = (None, None);
        let text = text(&[without]);
        assert!(text.contains("bandwidth_bits_per_second") && !text.contains("passed"), "{text}");
        assert!(!text.contains("expected"), "{text}");
    }

    #[test]
    fn percentiles_of_the_latency_are_exposed_and_options_are_labels() {
        let mut latency = record(1.0);
        latency.test.kind = TestKind::Latency;
        latency.test.options.traffic_class = "106".parse().ok();
        let measured =
            Latency { average_us: 2.0, p99_us: Some(4.0), p999_us: Some(9.0), ..Latency::default() };
        latency.measurement = Measurement { latency: Some(measured), ..Measurement::default() };
        latency.verdict.expected_p99 = Some(5.0);
        let mut other = latency.clone();
        other.test.options.traffic_class = None;
        let text = text(&[latency, other]);
        for (name, value) in [
            ("latency", "0.000002"),
            ("latency_p99", "0.000004"),
            ("latency_p999", "0.000009"),
            ("latency_p99_expected", "0.000005"),
        ] {
            let lines =
                || text.lines().filter(|line| line.starts_with(&format!("silkrail_check_{name}_seconds{{")));
            assert_eq!(lines().count(), 2, "{text}");
            assert_eq!(lines().filter(|line| line.contains("traffic_class=\"106\"")).count(), 1, "{text}");
            assert!(lines().all(|line| line.ends_with(&format!(" {value}"))), "{name}: {text}");
        }
    }
}
