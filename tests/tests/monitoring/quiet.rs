//! What is normal must not alert: `quiet_test.yml` asserts for every alert, at every moment, that it does not fire.

use std::fs;

use serde_json::{Value, json};
use silkrail_tests::conf;

use crate::{
    promtool,
    rule_file::{TEST_FILES, alerts, firing_cases, name, tests_of},
};

const QUIET: [&str; 5] = [
    "adaptive routing on a busy fabric",
    "a job is killed",
    "silkraild is restarted",
    "VFs move into pods and out of them, and are renumbered",
    "a node reboots",
];

/// A test that takes days, and is as quiet.
const UNCABLED: &str = "a port without a cable, from the first day";

/// The expression that finds an alert which fired at any time before `eval_time`.
fn fired(during: &str) -> String {
    format!("present_over_time(ALERTS{{alertstate=\"firing\"}}[{during}])")
}

#[test]
fn each_quiet_test_demands_that_no_alert_fires_at_any_time() {
    let quiet = tests_of("prometheus/quiet_test.yml");
    assert_eq!(quiet.iter().map(|test| test["name"].as_str().unwrap()).collect::<Vec<_>>(), QUIET);
    let days = tests_of("prometheus/days_test.yml").into_iter().filter(|test| test["name"] == UNCABLED);
    let all: Vec<_> = quiet.into_iter().chain(days).collect();
    assert_eq!(all.len(), QUIET.len() + 1);
    for test in all {
        let [assertion] = &test["promql_expr_test"].as_array().unwrap()[..] else {
            panic!("{}", test["name"])
        };
        let during = assertion["eval_time"].as_str().unwrap();
        assert_eq!(assertion["expr"], fired(during), "{}", test["name"]);
        assert_eq!(assertion["exp_samples"], json!([]), "{}", test["name"]);
        assert!(test["input_series"].as_array().unwrap().len() > 10, "{}", test["name"]);
    }
}

/// The assertion of the quiet tests would see each alert: it does in the tests in which the alert fires.
#[test]
fn the_assertion_of_the_quiet_tests_sees_every_alert_that_fires() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(conf::path("prometheus/rules.yml"), directory.path().join("rules.yml")).unwrap();
    let mut seen = Vec::new();
    for file in TEST_FILES {
        let mut document = conf::yaml(file).remove(0);
        let tests = document["tests"].take();
        let with_assertions = tests.as_array().unwrap().iter().filter_map(|test| {
            let cases = firing_cases(test);
            seen.extend(cases.iter().map(|case| case["alertname"].as_str().unwrap().to_owned()));
            (!cases.is_empty()).then(|| {
                let mut test = test.clone();
                test.as_object_mut().unwrap().remove("alert_rule_test");
                test["promql_expr_test"] = cases.iter().map(|case| sees(case)).collect();
                test
            })
        });
        document["tests"] = with_assertions.collect();
        fs::write(directory.path().join("test.yml"), document.to_string()).unwrap();
        if document["tests"] != json!([]) {
            promtool::run(&["test", "rules", "test.yml"], directory.path());
        }
    }
    for alert in alerts() {
        assert!(seen.contains(&name(&alert)), "{}", name(&alert));
    }
}

/// Expects that the alert of a case is among those that have fired.
fn sees(case: &Value) -> Value {
    let during = fired(case["eval_time"].as_str().unwrap());
    let alert = case["alertname"].as_str().unwrap();
    json!({
        "expr": format!("count({during} and on (alertname) label_replace(vector(1), \"alertname\", \"{alert}\", \"\", \"\")) > bool 0"),
        "eval_time": case["eval_time"],
        "exp_samples": [{"labels": "{}", "value": 1}],
    })
}
