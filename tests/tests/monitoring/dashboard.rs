//! Dashboards as they are in `conf/grafana/dashboards`.

use std::{fs, path::Path};

use serde_json::Value;

use crate::conf;

#[derive(Debug)]
pub(crate) struct Dashboard {
    /// The file's name.
    pub(crate) name: String,
    pub(crate) json: Value,
}

/// What a panel asks.
#[derive(Debug)]
pub(crate) struct Query {
    /// Dashboard, panel, letter.
    pub(crate) of: String,
    pub(crate) expression: String,
    pub(crate) legend: String,
}

impl Dashboard {
    pub(crate) fn all() -> Vec<Self> {
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
    pub(crate) fn panels_and_rows(&self) -> &[Value] {
        self.json["panels"].as_array().unwrap()
    }

    pub(crate) fn panels(&self) -> impl Iterator<Item = &Value> {
        self.panels_and_rows().iter().filter(|panel| panel["type"] != "row")
    }

    pub(crate) fn variables(&self) -> &[Value] {
        self.json["templating"]["list"].as_array().unwrap()
    }

    pub(crate) fn queries(&self) -> Vec<Query> {
        let of_panel = |panel: &Value| -> Vec<Query> {
            let targets = panel["targets"].as_array().unwrap();
            let query = |target: &Value| Query {
                of: format!("{}: {}: {}", self.name, text(&panel["title"]), text(&target["refId"])),
                expression: text(&target["expr"]),
                legend: text(&target["legendFormat"]),
            };
            targets.iter().map(query).collect()
        };
        self.panels().flat_map(of_panel).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
