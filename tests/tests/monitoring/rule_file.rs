//! The rules of `conf/prometheus/rules.yml`, as data.

use std::{collections::BTreeSet, fs};

use serde_json::Value;
use silkrail_tests::conf;
use testkit::Share;

use crate::promtool;

/// Returns recording rules and alerts.
pub(crate) fn rules() -> Vec<Value> {
    let groups = conf::yaml("prometheus/rules.yml").remove(0)["groups"].take();
    groups.as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// Returns the alerts.
pub(crate) fn alerts() -> Vec<Value> {
    rules().into_iter().filter(|rule| rule["alert"].is_string()).collect()
}

/// Returns the name of an alert.
pub(crate) fn name(alert: &Value) -> String {
    alert["alert"].as_str().unwrap().to_owned()
}

/// Returns the names of all alerts.
pub(crate) fn alert_names() -> BTreeSet<String> {
    alerts().iter().map(name).collect()
}

/// Returns the names of the series that recording rules make.
pub(crate) fn recorded() -> BTreeSet<String> {
    rules().iter().filter_map(|rule| rule["record"].as_str()).map(str::to_owned).collect()
}

/// The unit tests of the rules.
pub(crate) const TEST_FILES: [&str; 3] =
    ["prometheus/rules_test.yml", "prometheus/days_test.yml", "prometheus/quiet_test.yml"];

/// Returns the tests of a file.
pub(crate) fn tests_of(file: &str) -> Vec<Value> {
    conf::yaml(file).remove(0)["tests"].as_array().unwrap().clone()
}

/// Returns the tests of a file that this run takes.
pub(crate) fn share_of(file: &str) -> Vec<Value> {
    let all = tests_of(file);
    Share::of_tests_of(&["conf/prometheus"])
        .of_list(file, all.len())
        .map(|index| all[index].clone())
        .collect()
}

/// Runs tests as if a file had only these.
pub(crate) fn run_in_place_of(file: &str, tests: &[Value]) {
    if tests.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::copy(conf::path("prometheus/rules.yml"), directory.path().join("rules.yml")).unwrap();
    let mut document = conf::yaml(file).remove(0);
    document["tests"] = tests.into();
    fs::write(directory.path().join("test.yml"), document.to_string()).unwrap();
    promtool::run(&["test", "rules", "test.yml"], directory.path());
}

/// Returns the cases of a test that expect an alert.
pub(crate) fn firing_cases(test: &Value) -> Vec<&Value> {
    let cases = test["alert_rule_test"].as_array().into_iter().flatten();
    cases.filter(|case| !case["exp_alerts"].as_array().unwrap().is_empty()).collect()
}
