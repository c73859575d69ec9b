//! The rules: promtool accepts them, every alert fires and clears in a test, and every metric exists.

use std::collections::BTreeSet;

use serde_json::Value;
use silkrail_tests::{conf, reference::MetricsReference};

use crate::{
    demo,
    expression::{lists, selectors},
    promtool,
    rule_file::{
        TEST_FILES, alert_names, alerts, name, recorded, rules, run_in_place_of, share_of, tests_of,
    },
};

/// Labels that Prometheus adds to those of the reference.
const OF_PROMETHEUS: [&str; 3] = ["job", "cluster", "instance"];

#[test]
fn promtool_accepts_the_rules() {
    promtool::run(&["check", "rules", "rules.yml"], &conf::path("prometheus"));
}

#[test]
fn the_unit_tests_of_the_rules_pass() {
    for file in TEST_FILES {
        run_in_place_of(file, &share_of(file));
    }
}

/// Otherwise promtool evaluates them in random order, and rules do not find what others have recorded.
#[test]
fn the_unit_tests_evaluate_the_groups_in_the_order_of_the_file() {
    let groups = conf::yaml("prometheus/rules.yml").remove(0)["groups"].take();
    let names: Value = groups.as_array().unwrap().iter().map(|group| group["name"].clone()).collect();
    for file in TEST_FILES {
        assert_eq!(conf::yaml(file).remove(0)["group_eval_order"], names, "{file}");
    }
}

#[test]
fn every_alert_fires_and_clears_in_a_unit_test() {
    let tests: Vec<Value> = TEST_FILES.iter().flat_map(|file| tests_of(file)).collect();
    for alert in alerts() {
        let both = |test: &&Value| {
            let of_alert = |case: &&Value| case["alertname"] == alert["alert"];
            let cases = test["alert_rule_test"].as_array().into_iter().flatten().filter(of_alert);
            let firing: Vec<bool> =
                cases.map(|case| !case["exp_alerts"].as_array().unwrap().is_empty()).collect();
            // It is inactive after it fired.
            firing.iter().skip_while(|fires| !**fires).any(|fires| !fires)
        };
        assert!(tests.iter().any(|test| both(&test)), "{} is not tested", name(&alert));
    }
}

/// Two instances of silkraild have the same devices for some minutes: a match of vectors must not be ambiguous.
#[test]
fn every_rule_can_be_evaluated_while_silkraild_is_replaced() {
    let of = |instance| demo::series(&[("job", "silkraild"), ("instance", instance), ("cluster", "c1")]);
    let mut series = [of("old"), of("new")].concat();
    let recorded = recorded();
    series.retain(|(series, _)| !recorded.contains(series.split('{').next().unwrap()));
    promtool::evaluate_rules(&series, &conf::path("prometheus/rules.yml"));
}

#[test]
fn every_alert_has_a_severity_and_a_description() {
    for alert in alerts() {
        let labels = alert["labels"].as_object().unwrap();
        assert_eq!(labels.len(), 1, "{}", name(&alert));
        assert!(["critical", "warning"].contains(&labels["severity"].as_str().unwrap()), "{}", name(&alert));
        let annotations = &alert["annotations"];
        assert!(!annotations["summary"].as_str().unwrap().is_empty(), "{}", name(&alert));
        assert!(annotations["description"].as_str().unwrap().len() > 100, "{}", name(&alert));
    }
}

#[test]
fn alert_names_are_unique_and_begin_with_rdma() {
    let names = alert_names();
    assert_eq!(names.len(), alerts().len());
    assert!(names.iter().all(|name| name.starts_with("RDMA")), "{names:?}");
}

#[test]
fn the_page_has_every_alert_and_no_other() {
    let page = conf::text("prometheus/README.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `RDMA"));
    let on_page: BTreeSet<String> =
        rows.map(|row| format!("RDMA{}", row.split_once('`').unwrap().0)).collect();
    assert_eq!(on_page, alert_names());
}

#[test]
fn every_metric_and_label_is_in_the_reference() {
    let metrics = MetricsReference::read().metrics();
    let recorded = recorded();
    for rule in rules() {
        for selector in selectors(rule["expr"].as_str().unwrap()) {
            if selector.name == "up" || recorded.contains(&selector.name) {
                continue;
            }
            let metric = metrics.iter().find(|metric| metric.name == selector.name);
            let metric = metric.unwrap_or_else(|| panic!("{} is not in the reference", selector.name));
            for label in &selector.labels {
                let known = metric.has(label) || OF_PROMETHEUS.contains(&label.as_str());
                assert!(known, "{} has no label {label}", metric.name);
            }
        }
    }
}

/// Nodes of the same name in two clusters must not be combined, nor cards of the same model.
#[test]
fn aggregation_and_matching_are_by_cluster_and_node() {
    for rule in rules() {
        let expression = rule["expr"].as_str().unwrap();
        for list in lists(expression, "by").into_iter().chain(lists(expression, "on")) {
            let is_of_cluster = list == ["cluster"];
            let firsts = [["cluster", "node"], ["cluster", "board_id"]];
            assert!(is_of_cluster || firsts.iter().any(|first| list[..2] == *first), "{expression}");
        }
    }
}
