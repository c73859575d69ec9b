//! The metrics reference, `conf/prometheus/metrics.md`, as data.

use std::{collections::HashMap, fs, path::Path};

/// The placeholder for the name of a hardware counter in the name of a pod's metric.
const PLACEHOLDER: &str = "<counter>";

/// A row of the reference.
#[derive(Debug, Clone)]
pub struct ReferenceMetric {
    /// Name in the exposition.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// Description.
    pub meaning: String,
    /// Source of the value.
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

    /// Returns whether a series of the metric may have this label.
    pub fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }

    /// Returns the counters that a histogram consists of.
    fn series_of_histogram(&self) -> [Self; 3] {
        let counter = |suffix: &str| Self {
            name: format!("{}{suffix}", self.name),
            kind: "counter".to_owned(),
            ..self.clone()
        };
        let mut bucket = counter("_bucket");
        bucket.labels.push("le".to_owned());
        [bucket, counter("_sum"), counter("_count")]
    }

    /// Returns whether the metric is a hardware counter, which pods have as well.
    fn is_of_hardware(&self) -> bool {
        self.source.contains("`hw_counters`, ")
    }
}

/// The rows of the metrics reference.
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
                .filter(|line| line.starts_with("| `rdma_") || line.starts_with("| `silkrail_"))
                .map(ReferenceMetric::parse)
                .collect(),
        }
    }

    /// Returns the rows of the page.
    pub fn rows(&self) -> &[ReferenceMetric] {
        &self.rows
    }

    /// Returns every metric, with one element for each hardware counter of pods and each series of a histogram.
    pub fn metrics(&self) -> Vec<ReferenceMetric> {
        let (patterns, mut metrics): (Vec<_>, Vec<_>) =
            self.rows.iter().cloned().partition(|row| row.name.contains(PLACEHOLDER));
        let counters: Vec<ReferenceMetric> =
            metrics.iter().filter(|row| row.is_of_hardware()).cloned().collect();
        for pattern in patterns {
            let of_pods = counters.iter().map(|counter| ReferenceMetric {
                name: counter.name.replacen("rdma_", "rdma_pod_", 1),
                source: counter.source.clone(),
                ..pattern.clone()
            });
            // Some have a separate row with other labels.
            let of_pods = of_pods.filter(|one| self.rows.iter().all(|row| row.name != one.name));
            metrics.extend(of_pods.collect::<Vec<_>>());
        }
        let (histograms, mut metrics): (Vec<_>, Vec<_>) =
            metrics.into_iter().partition(|metric| metric.kind == "histogram");
        metrics.extend(histograms.iter().flat_map(ReferenceMetric::series_of_histogram));
        metrics
    }

    /// Returns what an exposition (Prometheus text) contains and the reference does not: metrics, other types, labels.
    pub fn undocumented(&self, exposition: &str) -> Vec<String> {
        let metrics: HashMap<String, ReferenceMetric> =
            self.metrics().into_iter().map(|metric| (metric.name.clone(), metric)).collect();
        let mut found: Vec<String> =
            exposition.lines().filter_map(|line| undocumented_part(&metrics, line)).collect();
        found.sort();
        found.dedup();
        found
    }
}

fn undocumented_part(metrics: &HashMap<String, ReferenceMetric>, line: &str) -> Option<String> {
    if let Some(of_type) = line.strip_prefix("# TYPE ") {
        let (name, kind) = of_type.split_once(' ')?;
        return metrics.get(name).filter(|metric| metric.kind != kind).map(|_| format!("{name} is a {kind}"));
    }
    if line.starts_with('#') || line.is_empty() {
        return None;
    }
    let name = line.split(['{', ' ']).next()?;
    let Some(metric) = metrics.get(name) else { return Some(name.to_owned()) };
    // Values of labels are quoted, so the text outside quotes contains the names.
    let labels = line[name.len()..].replace(r"\\", "").replace(r#"\""#, "");
    let names = labels.split('"').step_by(2).filter_map(|part| part.strip_suffix('='));
    let mut names = names.map(|part| part.trim_start_matches(['{', ',']));
    names.find(|label| !metric.has(label)).map(|label| format!("{name} has the label {label}"))
}
