//! promtool, of Debian's package `prometheus`.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use silkrail_tests::prometheus;

/// Runs promtool; fails with its output if it reports an error.
pub(crate) fn run(args: &[&str], directory: &Path) {
    let ran =
        Command::new(prometheus::program("promtool")).args(args).current_dir(directory).output().unwrap();
    let output = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ran.status.success(), "promtool {args:?} in {}:\n{output}", directory.display());
}

/// An expression and its value 30 minutes after the series began.
#[derive(Debug)]
pub(crate) struct RuleTest {
    pub(crate) expression: String,
    /// Labels as `{a="b"}`, and the value.
    pub(crate) sample: (String, f64),
}

/// Evaluates expressions over series with one value per minute.
pub(crate) fn evaluate(series: &[(String, String)], expected: &[RuleTest]) {
    let directory = tempfile::tempdir().unwrap();
    let test = json!({"evaluation_interval": "1m", "tests": [{
        "interval": "1m",
        "input_series": series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect::<Value>(),
        "promql_expr_test": expected.iter().map(|e| json!({
            "expr": e.expression,
            "eval_time": "30m",
            "exp_samples": [{"labels": e.sample.0, "value": e.sample.1}],
        })).collect::<Value>(),
    }]});
    // JSON is YAML.
    fs::write(directory.path().join("test.yml"), test.to_string()).unwrap();
    run(&["test", "rules", "test.yml"], directory.path());
}

/// Evaluates all rules over series with one value per minute; fails if one cannot be evaluated.
pub(crate) fn evaluate_rules(series: &[(String, String)], rules: &Path) {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(rules, directory.path().join("rules.yml")).unwrap();
    let test = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [{
        "interval": "1m",
        "input_series": series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect::<Value>(),
        "promql_expr_test": [{"expr": "vector(1)", "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": 1}]}],
    }]});
    fs::write(directory.path().join("test.yml"), test.to_string()).unwrap();
    run(&["test", "rules", "test.yml"], directory.path());
}
