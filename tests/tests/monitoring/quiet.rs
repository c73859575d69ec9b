//! What is normal must not alert: `quiet_test.yml` asserts for every alert, at every moment, that it does not fire.

use serde_json::{Value, json};

use crate::rule_file::{TEST_FILES, alerts, firing_cases, name, run_in_place_of, share_of, tests_of};

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
    let mut seen = Vec::new();
    for file in TEST_FILES {
        let tests = tests_of(file);
        let firing = tests.iter().flat_map(|test| firing_cases(test));
        seen.extend(firing.map(|case| case["alertname"].as_str().unwrap().to_owned()));
        let share = share_of(file);
        let with_assertions: Vec<_> = share.iter().filter_map(that_sees_what_fires).collect();
        run_in_place_of(file, &with_assertions);
    }
    for alert in alerts() {
        assert!(seen.contains(&name(&alert)), "{}", name(&alert));
    }
}

/// Returns a test with the assertion of the quiet tests in place of its own, if an alert fires in it.
fn that_sees_what_fires(test: &Value) -> Option<Value> {
    let cases = firing_cases(test);
    let mut sees_it = test.clone();
    sees_it.as_object_mut().unwrap().remove("alert_rule_test");
    sees_it["promql_expr_test"] = cases.iter().map(|case| sees(case)).collect();
    (!cases.is_empty()).then_some(sees_it)
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
