//! Dashboards as they are in `conf/grafana/dashboards`.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::conf;

/// A dashboard.
#[derive(Debug)]
pub struct Dashboard {
    /// The file's name.
    pub name: String,
    /// What it is.
    pub json: Value,
}

/// What a panel asks.
#[derive(Debug)]
pub struct PanelQuery {
    /// Dashboard, panel, letter.
    pub of: String,
    /// In PromQL, with variables.
    pub expression: String,
    /// How each series is called.
    pub legend: String,
}

impl Dashboard {
    /// All of them.
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

    /// Panels and rows. No row is collapsed, so none is inside another.
    ///
    /// # Panics
    /// If it has none.
    pub fn panels_and_rows(&self) -> &[Value] {
        self.json["panels"].as_array().unwrap()
    }

    /// Panels without rows.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        self.panels_and_rows().iter().filter(|panel| panel["type"] != "row")
    }

    /// What the reader may choose.
    ///
    /// # Panics
    /// If it has no such list.
    pub fn variables(&self) -> &[Value] {
        self.json["templating"]["list"].as_array().unwrap()
    }

    /// What its panels ask.
    ///
    /// # Panics
    /// If a panel asks nothing.
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

/// An expression with its variables chosen: all of everything, and rates over `interval`.
pub fn chosen(expression: &str, interval: &str) -> String {
    let mut text = expression.replace("$__rate_interval", interval);
    for variable in variables(expression) {
        text = text.replace(&format!("\"${variable}\""), "\".*\"");
    }
    text
}

/// The variables a text uses. `$1` is one of a regular expression, `$__…` are Grafana's.
pub fn variables(text: &str) -> BTreeSet<String> {
    let name = |after: &str| -> String {
        after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let ours = |name: &String| name.starts_with(|c: char| c.is_ascii_lowercase());
    text.split('$').skip(1).map(name).filter(ours).collect()
}

/// Metric and label of `label_values(metric, label)`.
///
/// # Panics
/// If it is something else.
pub fn label_values(query: &str) -> (&str, &str) {
    let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
    inside.rsplit_once(", ").unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
