//! The metrics reference, `conf/prometheus/metrics.md`, as data.

use std::{collections::HashMap, fs, path::Path};

/// Where the name of a hardware counter stands in the name of a pod's metric.
const PLACE: &str = "<counter>";

/// On every series of a device that is in a pod's network namespace, whatever the page says of the metric.
const OF_A_POD: [&str; 2] = ["pod_namespace", "pod_name"];

/// A row of the reference.
#[derive(Debug, Clone)]
pub struct ReferenceMetric {
    /// As in the exposition.
    pub name: String,
    /// `counter` or `gauge`.
    pub kind: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// What it tells.
    pub meaning: String,
    /// Where the value comes from.
    pub source: String,
}

impl ReferenceMetric {
    fn parse(row: &str) -> Self {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning, source] = cells[..] else { panic!("{row} has not five cells") };
        Self {
            name: name.trim_matches('`').to_owned(),
            kind: kind.to_owned(),
            labels: labels.split(", ").map(str::to_owned).collect(),
            meaning: meaning.to_owned(),
            source: source.to_owned(),
        }
    }

    /// Whether a series of it may have this label.
    pub fn has(&self, label: &str) -> bool {
        OF_A_POD.contains(&label) || self.labels.iter().any(|known| known == label)
    }

    /// A counter of drivers, which pods have as well.
    fn is_of_hardware(&self) -> bool {
        self.source.contains("`hw_counters`, ")
    }
}

/// The page.
#[derive(Debug)]
pub struct MetricsReference {
    rows: Vec<ReferenceMetric>,
}

impl MetricsReference {
    /// Reads the page.
    pub fn read() -> Self {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conf/prometheus/metrics.md");
        let page = fs::read_to_string(page).unwrap();
        Self {
            rows: page
                .lines()
                .filter(|line| line.starts_with("| `rdma_"))
                .map(ReferenceMetric::parse)
                .collect(),
        }
    }

    /// The rows of the page.
    pub fn rows(&self) -> &[ReferenceMetric] {
        &self.rows
    }

    /// Every metric, those of pods' hardware counters one by one.
    pub fn metrics(&self) -> Vec<ReferenceMetric> {
        let (patterns, mut metrics): (Vec<_>, Vec<_>) =
            self.rows.iter().cloned().partition(|row| row.name.contains(PLACE));
        let counters: Vec<ReferenceMetric> =
            metrics.iter().filter(|row| row.is_of_hardware()).cloned().collect();
        for pattern in patterns {
            let of_pods = counters.iter().map(|counter| ReferenceMetric {
                name: counter.name.replacen("rdma_", "rdma_pod_", 1),
                source: counter.source.clone(),
                ..pattern.clone()
            });
            // Some have a row of their own, with labels of their own.
            let of_pods = of_pods.filter(|one| self.rows.iter().all(|row| row.name != one.name));
            metrics.extend(of_pods.collect::<Vec<_>>());
        }
        metrics
    }

    /// What is in an exposition (Prometheus text) and not in the reference: unknown names, other types, unknown labels.
    pub fn strangers(&self, exposition: &str) -> Vec<String> {
        let metrics: HashMap<String, ReferenceMetric> =
            self.metrics().into_iter().map(|metric| (metric.name.clone(), metric)).collect();
        let mut found: Vec<String> = exposition.lines().filter_map(|line| stranger(&metrics, line)).collect();
        found.sort();
        found.dedup();
        found
    }
}

fn stranger(metrics: &HashMap<String, ReferenceMetric>, line: &str) -> Option<String> {
    if let Some(of_type) = line.strip_prefix("# TYPE ") {
        let (name, kind) = of_type.split_once(' ')?;
        return metrics.get(name).filter(|metric| metric.kind != kind).map(|_| format!("{name} is a {kind}"));
    }
    if line.starts_with('#') || line.is_empty() {
        return None;
    }
    let name = line.split(['{', ' ']).next()?;
    let Some(metric) = metrics.get(name) else { return Some(name.to_owned()) };
    // Values of labels are between quotes, so what is not holds the names.
    let labels = line[name.len()..].replace(r"\\", "").replace(r#"\""#, "");
    let names = labels.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
    let mut names = names.map(|part| part.trim_start_matches(['{', ',']));
    names.find(|label| !metric.has(label)).map(|label| format!("{name} has the label {label}"))
}
