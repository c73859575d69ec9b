//! The metrics reference follows the naming conventions of Prometheus.

use std::collections::BTreeSet;

use silkrail_tests::reference::MetricsReference;

#[test]
fn every_metric_is_listed_once_with_its_meaning_and_source() {
    let mut names = BTreeSet::new();
    for row in MetricsReference::read().rows() {
        assert!(names.insert(row.name.clone()), "{} is listed twice", row.name);
        assert!(row.labels.iter().any(|label| label == "node"), "{} has no label node", row.name);
        assert!(!row.meaning.is_empty() && !row.source.is_empty(), "{}", row.name);
    }
    assert!(names.len() > 100, "{names:?}");
}

#[test]
fn counters_and_only_they_end_in_total() {
    for row in MetricsReference::read().rows() {
        let counter = match row.kind.as_str() {
            "counter" => true,
            "gauge" | "histogram" => false,
            other => panic!("{} is a {other}", row.name),
        };
        assert_eq!(counter, row.name.ends_with("_total"), "{}", row.name);
    }
}

#[test]
fn a_pod_metric_is_listed_once_with_its_own_labels() {
    let metrics = MetricsReference::read().metrics();
    let names: BTreeSet<_> = metrics.iter().map(|metric| &metric.name).collect();
    assert_eq!(names.len(), metrics.len());
    let errors = "rdma_pod_errors_total{node=\"n\",error=\"ack_timeout\",attribution=\"psn\"} 3\n";
    assert_eq!(MetricsReference::read().undocumented(errors), Vec::<String>::new());
}

#[test]
fn metrics_that_are_not_in_the_reference_are_found_in_an_exposition() {
    let known = "# HELP rdma_port_up Up.\n# TYPE rdma_port_up gauge\n\
        rdma_port_up{node=\"a=\\\"b,c=\",device=\"mlx5_0\",netns=\"p\"} 1\nrdma_pod_sent_pkts_total{attribution=\"psn\"} 3\n";
    assert!(MetricsReference::read().undocumented(known).is_empty());
    let unknown =
        "# TYPE rdma_port_up counter\nrdma_port_up{node=\"n\",ifname=\"mlx5_0\"} 1\nrdma_latency_p99 3\n";
    assert_eq!(
        MetricsReference::read().undocumented(unknown),
        ["rdma_latency_p99", "rdma_port_up has the label ifname", "rdma_port_up is a counter"]
    );
}
