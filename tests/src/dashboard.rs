//! Reads the dashboards of `conf/grafana/dashboards`.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::conf;

/// A Grafana dashboard.
#[derive(Debug)]
pub struct Dashboard {
    /// File name, for example `rdma-node.json`.
    pub name: String,
    /// The dashboard model.
    pub json: Value,
}

/// A query of a panel.
#[derive(Debug)]
pub struct PanelQuery {
    /// File name, panel title and `refId`, separated by `: `.
    pub of: String,
    /// Expression in PromQL, with variables.
    pub expression: String,
    /// Legend of each series, Grafana's `legendFormat`.
    pub legend: String,
}

impl Dashboard {
    /// Reads all dashboards, sorted by file name.
    ///
    /// # Panics
    /// If one cannot be read.
    pub fn all() -> Vec<Self> {
        let mut files: Vec<_> = fs::read_dir(conf::path("grafana/dashboards"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty());
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Self {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let json = serde_json::from_str(&fs::read_to_string(file).unwrap());
        Self { json: json.unwrap_or_else(|e| panic!("{name}: {e}")), name }
    }

    /// Returns panels without rows. No row is collapsed, so no panel is inside a row.
    ///
    /// # Panics
    /// If it has none.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        self.json["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row")
    }

    /// Returns the variables of the dashboard.
    ///
    /// # Panics
    /// If it has no list of variables.
    pub fn variables(&self) -> &[Value] {
        self.json["templating"]["list"].as_array().unwrap()
    }

    /// Returns the queries of all panels.
    ///
    /// # Panics
    /// If a panel has no query.
    pub fn queries(&self) -> Vec<PanelQuery> {
        let of_panel = |panel: &Value| -> Vec<PanelQuery> {
            let targets = panel["targets"].as_array().unwrap();
            let query = |target: &Value| PanelQuery {
                of: format!("{}: {}: {}", self.name, text(&panel["title"]), text(&target["refId"])),
                expression: text(&target["expr"]),
                legend: text(&target["legendFormat"]),
            };
            targets.iter().map(query).collect()
        };
        self.panels().flat_map(of_panel).collect()
    }
}

/// Replaces the variables of an expression: each matches every value, and rates are over `interval`.
pub fn chosen(expression: &str, interval: &str) -> String {
    let mut text = expression.replace("$__rate_interval", interval);
    for variable in variables(expression) {
        text = text.replace(&format!("\"${variable}\""), "\".*\"");
    }
    text
}

/// Returns the names of the variables in a text, without `$1` of regular expressions and Grafana's `$__…`.
pub fn variables(text: &str) -> BTreeSet<String> {
    let name = |after: &str| -> String {
        after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let is_variable = |name: &String| name.starts_with(|c: char| c.is_ascii_lowercase());
    text.split('$').skip(1).map(name).filter(is_variable).collect()
}

/// Returns the metric and the label of `label_values(metric, label)`.
///
/// # Panics
/// If the query has another form.
pub fn label_values(query: &str) -> (&str, &str) {
    let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
    inside.rsplit_once(", ").unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
