//! The rules of `conf/prometheus/rules.yml`, as data.

use std::collections::BTreeSet;

use serde_json::Value;
use silkrail_tests::conf;

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
