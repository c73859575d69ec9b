//! The dashboards: Grafana accepts them, panels are described, and every panel has data.

use std::collections::BTreeSet;

use serde_json::Value;
use silkrail_tests::{
    dashboard::{Dashboard, PanelQuery, chosen, label_values, variables},
    reference::MetricsReference,
};

use crate::{
    demo,
    expression::{lists, selectors, without_strings},
    promtool::{self, RuleTest},
    rule_file::{alerts, name, recorded, rules},
};

/// The value of `$__rate_interval` in these tests.
const INTERVAL: &str = "5m";

/// Labels that Prometheus adds.
const OF_PROMETHEUS: [&str; 2] = ["job", "cluster"];

fn dashboards() -> Vec<Dashboard> {
    Dashboard::all()
}

fn queries() -> Vec<PanelQuery> {
    dashboards().iter().flat_map(Dashboard::queries).collect()
}

#[test]
fn every_query_uses_the_selected_data_source() {
    for dashboard in dashboards() {
        let first = &dashboard.variables()[0];
        assert_eq!((&first["name"], &first["type"]), (&"datasource".into(), &"datasource".into()));
        assert_eq!(first["hide"], 0, "{}: the choice of a data source is hidden", dashboard.name);
        let targets = dashboard.panels().flat_map(|panel| panel["targets"].as_array().unwrap());
        for item in dashboard.panels().chain(targets).chain(&dashboard.variables()[1..]) {
            assert_eq!(item["datasource"]["uid"], "${datasource}", "{}: {item}", dashboard.name);
            assert_eq!(item["datasource"]["type"], "prometheus");
        }
    }
}

#[test]
fn variables_are_declared_before_they_are_used_and_none_is_unused() {
    for dashboard in dashboards() {
        let mut declared = BTreeSet::new();
        let mut used = BTreeSet::from(["datasource".to_owned()]);
        for variable in dashboard.variables() {
            let needs = variables(&variable["query"].to_string());
            assert!(needs.is_subset(&declared), "{}: {} needs {needs:?}", dashboard.name, variable["name"]);
            used.extend(needs);
            declared.insert(variable["name"].as_str().unwrap().to_owned());
        }
        for query in dashboard.queries() {
            let needs = variables(&query.expression);
            assert!(needs.is_subset(&declared), "{}: {needs:?}", query.of);
            used.extend(needs);
        }
        assert_eq!(used, declared, "{}", dashboard.name);
    }
}

#[test]
fn every_panel_filters_by_job_and_cluster() {
    for query in queries() {
        for selector in selectors(&query.expression).iter().filter(|selector| selector.name != "ALERTS") {
            for label in
                ["job", "cluster"].iter().filter(|label| **label == "cluster" || has_job(&selector.name))
            {
                assert!(
                    selector.labels.iter().any(|l| l == *label),
                    "{}: {} has no filter by {label}",
                    query.of,
                    selector.name
                );
            }
        }
    }
}

/// Recording rules aggregate the job away, and that of tests between nodes is node_exporter's.
fn has_job(metric: &str) -> bool {
    let is_of_check = ["silkrail_check_", "silkrail_probe"].iter().any(|prefix| metric.starts_with(prefix));
    !is_of_check && !recorded().contains(metric)
}

#[test]
fn rates_use_the_rate_interval_of_grafana() {
    for query in queries() {
        let ranges = query.expression.matches('[').count();
        assert_eq!(ranges, query.expression.matches("[$__rate_interval]").count(), "{}", query.of);
    }
}

/// Two names under one rate, and a sum with an absent operand, fail or have no data if drivers differ.
#[test]
fn no_panel_requires_the_same_metrics_of_every_driver() {
    for query in queries() {
        assert!(!query.expression.contains("__name__"), "{}", query.of);
        assert!(!without_strings(&query.expression).contains('+'), "{}", query.of);
    }
}

/// Nodes of the same name in two clusters must not be matched.
#[test]
fn vectors_are_matched_by_cluster_and_node() {
    for query in queries() {
        for list in lists(&query.expression, "on") {
            assert_eq!(list[..2], ["cluster", "node"], "{}", query.of);
        }
    }
}

#[test]
fn every_metric_and_label_is_in_the_reference() {
    let metrics = MetricsReference::read().metrics();
    let queried = queries().into_iter().map(|query| (query.of, query.expression));
    let offered = dashboards().into_iter().flat_map(|dashboard| {
        let query = |variable: &Value| {
            let (inside, label) = label_values(variable["query"]["query"].as_str().unwrap());
            // As if it filtered by the label whose values it lists.
            let expression = match inside.split_once('{') {
                Some((name, matchers)) => format!("{name}{{{label}=\"\",{matchers}"),
                None => format!("{inside}{{{label}=\"\"}}"),
            };
            (format!("{}: {}", dashboard.name, variable["name"]), expression)
        };
        dashboard.variables().iter().skip(1).map(query).collect::<Vec<_>>()
    });
    for (of, expression) in queried.chain(offered) {
        for selector in selectors(&expression) {
            if ["ALERTS", "up"].contains(&selector.name.as_str()) || recorded().contains(&selector.name) {
                continue;
            }
            let metric = metrics.iter().find(|metric| metric.name == selector.name);
            let metric = metric.unwrap_or_else(|| panic!("{of}: {} is not in the reference", selector.name));
            for label in &selector.labels {
                let known = metric.has(label) || OF_PROMETHEUS.contains(&label.as_str());
                assert!(known, "{of}: {} has no label {label}", metric.name);
            }
        }
    }
}

/// Who is paged looks at the metric next: a panel has each metric of each alert, or the series that rules record from it.
#[test]
fn every_metric_of_every_alert_is_on_a_panel() {
    let shown: BTreeSet<String> = queries()
        .iter()
        .flat_map(|query| selectors(&query.expression))
        .map(|selector| selector.name)
        .collect();
    for alert in alerts() {
        for selector in selectors(alert["expr"].as_str().unwrap()) {
            let missing = not_shown(&selector.name, &shown);
            assert!(missing.is_empty(), "{}: no panel shows {missing:?}", name(&alert));
        }
    }
}

/// Returns the metrics that no panel shows, of a metric or of those that a recording rule reads.
fn not_shown(metric: &str, shown: &BTreeSet<String>) -> Vec<String> {
    if shown.contains(metric) {
        return Vec::new();
    }
    let Some(rule) = rules().into_iter().find(|rule| rule["record"] == metric) else {
        return vec![metric.to_owned()];
    };
    let read = selectors(rule["expr"].as_str().unwrap());
    read.iter().flat_map(|selector| not_shown(&selector.name, shown)).collect()
}

#[test]
fn every_panel_has_data() {
    assert_panels_have_data(&[("job", "silkraild")]);
}

#[test]
fn every_panel_has_data_with_a_cluster_label() {
    assert_panels_have_data(&[("job", "silkraild"), ("cluster", "c1")]);
}

/// For some minutes the series of the old and the new instance both exist; a join must not fail.
#[test]
fn every_panel_has_data_while_silkraild_is_replaced() {
    let of = |instance| demo::series(&[("job", "silkraild"), ("instance", instance)]);
    let mut both = [of("old"), of("new")].concat();
    both.sort();
    // A recorded series has no instance.
    both.dedup();
    assert_panels_have_data_of(&both);
}

fn assert_panels_have_data(labels: &[(&str, &str)]) {
    assert_panels_have_data_of(&demo::series(labels));
}

fn assert_panels_have_data_of(series: &[(String, String)]) {
    let has_data = |query: PanelQuery| RuleTest {
        expression: format!("count({}) > bool 0", with_variables(&query.expression)),
        sample: ("{}".to_owned(), 1.0),
    };
    promtool::evaluate(series, &queries().into_iter().map(has_data).collect::<Vec<_>>());
}

/// A legend is empty if its label was aggregated away.
#[test]
fn every_legend_has_its_labels() {
    let with_label = |query: &PanelQuery, label: &str| RuleTest {
        expression: format!(
            r#"(count by (has) (label_replace({}, "has", "it", "{label}", ".+"))
               and on (has) label_replace(vector(1), "has", "it", "", "")) > bool 0"#,
            with_variables(&query.expression)
        ),
        sample: (r#"{has="it"}"#.to_owned(), 1.0),
    };
    let expected: Vec<RuleTest> = queries()
        .iter()
        .flat_map(|query| {
            legend(&query.legend).into_iter().map(|label| with_label(query, label)).collect::<Vec<_>>()
        })
        .collect();
    promtool::evaluate(&demo::series(&[("job", "silkraild")]), &expected);
}

#[test]
fn traffic_is_counted_once() {
    let value = |dashboard: &str, panel: &str, value: f64| {
        let of = format!("{dashboard}.json: {panel}: A");
        let query = queries().into_iter().find(|query| query.of == of).unwrap_or_else(|| panic!("no {of}"));
        let expression = format!("round(max({}), 0.001)", with_variables(&query.expression));
        RuleTest { expression, sample: ("{}".to_owned(), value) }
    };
    let bits = 8.0 * demo::BYTES;
    let utilisation = 2.0 * demo::BYTES / demo::SPEED;
    let expected = [
        value("rdma-cluster", "Throughput", 4.0 * bits),
        value("rdma-cluster", "Throughput by node, received", 2.0 * bits),
        // The PF and its VF, which is in a pod; n1 has two ports and the same traffic.
        value("rdma-cluster", "Utilisation by node, received", utilisation),
        value("rdma-node", "Utilisation by card, sent", utilisation),
        // Pod a on two devices and pod c on one; b belongs to another workload.
        value("rdma-workload", "Throughput by workload, received", 3.0 * bits),
        value("rdma-workload", "Imbalance", 0.5),
        value("rdma-workload", "Pods", 3.0),
        value("rdma-pod", "Utilisation, received", demo::BYTES / demo::SPEED),
    ];
    promtool::evaluate(&demo::series(&[("job", "silkraild")]), &expected);
}

fn with_variables(expression: &str) -> String {
    chosen(expression, INTERVAL)
}

fn legend(text: &str) -> Vec<&str> {
    text.split("{{").skip(1).map(|part| part.split_once("}}").unwrap().0).collect()
}
