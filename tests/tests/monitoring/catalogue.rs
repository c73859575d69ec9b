//! The metrics reference, `conf/prometheus/metrics.md`, as data.

use crate::conf;

/// Where the name of a hardware counter stands in the name of a pod's metric.
const PLACE: &str = "<counter>";

/// A row of the reference.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) labels: Vec<String>,
    pub(crate) meaning: String,
    pub(crate) source: String,
}

impl Metric {
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

    /// A counter of drivers, which pods have as well.
    fn is_of_hardware(&self) -> bool {
        self.source.contains("`hw_counters`, ")
    }
}

#[derive(Debug)]
pub(crate) struct Catalogue {
    rows: Vec<Metric>,
}

impl Catalogue {
    pub(crate) fn read() -> Self {
        let page = conf::text("prometheus/metrics.md");
        Self { rows: page.lines().filter(|line| line.starts_with("| `rdma_")).map(Metric::parse).collect() }
    }

    /// The rows of the page.
    pub(crate) fn rows(&self) -> &[Metric] {
        &self.rows
    }

    /// Every metric, those of pods' hardware counters one by one.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let (patterns, mut metrics): (Vec<_>, Vec<_>) =
            self.rows.iter().cloned().partition(|row| row.name.contains(PLACE));
        let counters: Vec<Metric> = metrics.iter().filter(|row| row.is_of_hardware()).cloned().collect();
        for pattern in patterns {
            metrics.extend(counters.iter().map(|counter| Metric {
                name: counter.name.replacen("rdma_", "rdma_pod_", 1),
                source: counter.source.clone(),
                ..pattern.clone()
            }));
        }
        metrics
    }
}
