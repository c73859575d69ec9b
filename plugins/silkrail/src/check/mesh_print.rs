//! Human-readable output of a mesh test: a matrix if it fits the terminal, a summary of each rail, and what is wrong.

use std::io::{self, Write};

use check::{
    TestKind,
    mesh::{FailedNode, MeshResult, NodePair, Outlier, RailSummary, StopReason},
};

use crate::table;

/// Maximum number of lines of each list; the JSON output has all.
const MAX_LINES: usize = 20;

/// The width of a column of the matrix, with the space before it.
const CELL: usize = 11;

const HEAD: [&str; 9] = ["RAIL", "DEVICE", "PAIRS", "FAILED", "MIN", "P1", "MEDIAN", "P99", "MAX"];

/// Prints a mesh for a terminal of this width.
pub(super) fn mesh(mesh: &MeshResult, columns: usize, out: &mut dyn Write) -> io::Result<()> {
    let page = MeshPage { mesh, unit: unit(mesh) };
    if page.matrix_fits(columns) {
        page.matrix(out)?;
    }
    page.summary(out)?;
    page.slow(out)?;
    page.list(out, "outlier", mesh.outliers.iter().map(|outlier| page.outlier(outlier)))?;
    page.list(out, "below the threshold", page.below_threshold())?;
    page.list(
        out,
        "no port",
        mesh.missing_ports
            .iter()
            .map(|port| format!("{} on {}: {}", page.node(port.node), page.rail(port.rail), port.why)),
    )?;
    page.list(out, "failed node", mesh.failed_nodes.iter().map(|failed| page.failed_node(failed)))?;
    let failed = mesh.pairs.iter().filter(|pair| pair.record.is_none() && !pair.skipped);
    page.list(out, "failed", failed.map(|pair| page.failed(pair)))?;
    let skipped = mesh.pairs.iter().filter(|pair| pair.skipped).count();
    if skipped > 0 {
        writeln!(out, "skipped: {skipped} tests")?;
    }
    match mesh.stopped {
        Some(StopReason::Interrupted) => writeln!(out, "interrupted: the results are incomplete"),
        Some(StopReason::TimeLimit) => {
            writeln!(out, "the time limit was reached: the results are incomplete")
        }
        None => Ok(()),
    }
}

struct MeshPage<'a> {
    mesh: &'a MeshResult,
    unit: &'static str,
}

impl MeshPage<'_> {
    fn node(&self, node: usize) -> &str {
        &self.mesh.nodes[node]
    }

    fn rail(&self, rail: usize) -> String {
        format!("rail {rail} ({})", self.mesh.rails[rail].device)
    }

    /// Returns `A to B`, with the rail if there is one.
    fn pair(&self, client: usize, server: usize, rail: Option<usize>) -> String {
        let rail = rail.map(|rail| format!(" on {}", self.rail(rail))).unwrap_or_default();
        format!("{} to {}{rail}", self.node(client), self.node(server))
    }

    fn first_column(&self) -> usize {
        self.mesh.nodes.iter().map(|name| name.chars().count()).max().unwrap_or(0)
    }

    fn matrix_fits(&self, columns: usize) -> bool {
        let widths = self.mesh.nodes.iter().map(|name| name.chars().count().max(CELL - 2) + 2);
        self.mesh.rails.is_empty() && self.first_column() + widths.sum::<usize>() <= columns
    }

    fn matrix(&self, out: &mut dyn Write) -> io::Result<()> {
        let (names, first) = (&self.mesh.nodes, self.first_column());
        write!(out, "{:first$}", "")?;
        for name in names {
            write!(out, "  {name:>width$}", width = CELL - 2)?;
        }
        writeln!(out)?;
        for (row, name) in names.iter().enumerate() {
            write!(out, "{name:first$}")?;
            for (column, other) in names.iter().enumerate() {
                let cell = match self.mesh.between(row, column) {
                    _ if row == column => "-".into(),
                    Some(pair) => pair.value().map_or_else(|| "failed".into(), |value| format!("{value:.2}")),
                    None => String::new(),
                };
                write!(out, "  {cell:>width$}", width = other.len().max(CELL - 2))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Prints the distribution of the values of each rail, or of all pairs.
    fn summary(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.mesh.rails.is_empty() {
            return match self.mesh.summaries.first().zip(self.mesh.median) {
                Some((all, median)) if self.mesh.pairs.len() > 1 => {
                    let [min, p1, _, p99, max] = values(all);
                    writeln!(
                        out,
                        "median {median:.2} ({}), min {min}, p1 {p1}, p99 {p99}, max {max}",
                        self.unit
                    )
                }
                Some((_, median)) => writeln!(out, "median {median:.2} ({})", self.unit),
                None => Ok(()),
            };
        }
        let row = |summary: &RailSummary| {
            let [min, p1, median, p99, max] = values(summary);
            let rail = summary.rail.unwrap_or(0);
            let device = self.mesh.rails[rail].device.clone();
            let (pairs, failed) = (summary.pairs.to_string(), summary.failed.to_string());
            [rail.to_string(), device, pairs, failed, min, p1, median, p99, max]
        };
        table::print(out, HEAD, &self.mesh.summaries.iter().map(row).collect::<Vec<_>>())?;
        writeln!(out, "values in {}", self.unit)
    }

    fn slow(&self, out: &mut dyn Write) -> io::Result<()> {
        let mesh = self.mesh;
        let share = |outliers: usize, pairs: usize| format!("{outliers} of its {pairs} pairs are outliers");
        let rails = mesh.slow_rails.iter();
        self.list(
            out,
            "slow rail",
            rails.map(|slow| {
                format!(
                    "{}: {} of its {} pairs are worse than the median of all rails",
                    self.rail(slow.rail),
                    slow.outliers,
                    slow.pairs
                )
            }),
        )?;
        let nodes = mesh.slow_nodes.iter();
        self.list(
            out,
            "slow node",
            nodes.map(|slow| format!("{}: {}", self.node(slow.node), share(slow.outliers, slow.pairs))),
        )?;
        let ports = mesh.slow_ports.iter();
        self.list(
            out,
            "slow port",
            ports.map(|slow| {
                format!(
                    "{} on {}: {}",
                    self.node(slow.node),
                    self.rail(slow.rail),
                    share(slow.outliers, slow.pairs)
                )
            }),
        )
    }

    fn outlier(&self, outlier: &Outlier) -> String {
        let pair = self.pair(outlier.client, outlier.server, outlier.rail);
        let of = match outlier.worse_percent_of_all_rails {
            Some(all) if all > outlier.worse_percent => {
                format!("{all:.0} % worse than the median of all rails")
            }
            _ if outlier.rail.is_some() => {
                format!("{:.0} % worse than the median of its rail", outlier.worse_percent)
            }
            _ => format!("{:.0} % worse than the median", outlier.worse_percent),
        };
        format!("{pair}: {:.2}, {of}", outlier.value)
    }

    /// Returns the pairs below their threshold that are not listed as outliers.
    fn below_threshold(&self) -> impl Iterator<Item = String> {
        let is_outlier = |pair: &NodePair| {
            let same = |outlier: &Outlier| {
                (outlier.client, outlier.server, outlier.rail) == (pair.client, pair.server, pair.rail)
            };
            self.mesh.outliers.iter().any(same)
        };
        let below = self.mesh.below_threshold().filter(move |pair| !is_outlier(pair));
        below.filter_map(|pair| {
            let record = pair.record.as_ref()?;
            let named = self.pair(pair.client, pair.server, pair.rail);
            Some(format!("{named}: {:.2}: {}", pair.value()?, record.verdict.why))
        })
    }

    fn failed_node(&self, failed: &FailedNode) -> String {
        let rail = failed.rail.map(|rail| format!(" on {}", self.rail(rail))).unwrap_or_default();
        format!("{}{rail}: {}", self.node(failed.node), failed.error)
    }

    fn failed(&self, pair: &NodePair) -> String {
        let why = pair.error.as_deref().unwrap_or("no result");
        format!("{}: {why}", self.pair(pair.client, pair.server, pair.rail))
    }

    /// Prints a list with at most [`MAX_LINES`] lines.
    fn list(
        &self,
        out: &mut dyn Write,
        what: &str,
        mut lines: impl Iterator<Item = String>,
    ) -> io::Result<()> {
        for line in lines.by_ref().take(MAX_LINES) {
            writeln!(out, "{what}: {line}")?;
        }
        match lines.count() {
            0 => Ok(()),
            more => writeln!(out, "{what}: {more} more; --json has all"),
        }
    }
}

fn values(summary: &RailSummary) -> [String; 5] {
    let cell = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
    [summary.min, summary.p1, summary.median, summary.p99, summary.max].map(cell)
}

fn unit(mesh: &MeshResult) -> &'static str {
    let mut records = mesh.pairs.iter().flat_map(|pair| &pair.record);
    match records.next().map(|record| record.test.kind) {
        Some(TestKind::Latency) => "us",
        _ => "Gb/s",
    }
}
