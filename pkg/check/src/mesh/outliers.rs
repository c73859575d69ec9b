//! Results that are much worse than the others, and what they have in common: a node, a port of a node, or a rail.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    pair::NodePair,
    statistics::{median, percentile, sorted},
};
use crate::TestKind;

/// A result that is worse than the median by more than this percentage is an outlier.
pub const OUTLIER_PERCENT: f64 = 20.0;

/// A result that is much worse than the median.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlier {
    /// The index of the client in the list of nodes.
    pub client: usize,
    /// The index of the server in the list of nodes.
    pub server: usize,
    /// The index of the rail, if rails are tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<usize>,
    /// The average of the pair: Gb/s or microseconds.
    pub value: f64,
    /// By how many percent it is worse than the median of its rail, or of all pairs if rails are not tested. Negative if it
    /// is better.
    pub worse_percent: f64,
    /// By how many percent it is worse than the median of all rails, in relation to the speeds of the ports if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_percent_of_all_rails: Option<f64>,
    /// Whether one of the slow nodes, ports or rails explains it.
    pub explained: bool,
}

/// A node most of whose pairs are outliers, on most of its rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowNode {
    /// The index of the node.
    pub node: usize,
    /// The number of its results that are outliers.
    pub outliers: usize,
    /// The number of its results.
    pub pairs: usize,
}

/// A port of a node: most of its pairs are outliers, and the node's other ports are not slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowPort {
    /// The index of the node.
    pub node: usize,
    /// The index of the rail.
    pub rail: usize,
    /// The number of its results that are outliers.
    pub outliers: usize,
    /// The number of its results.
    pub pairs: usize,
}

/// A rail most of whose results are worse than the median of all rails.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowRail {
    /// The index of the rail.
    pub rail: usize,
    /// The number of its results that are worse than the median of all rails.
    pub outliers: usize,
    /// The number of its results.
    pub pairs: usize,
}

/// The distribution of the results of a rail, or of all pairs if rails are not tested.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RailSummary {
    /// The index of the rail, if rails are tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<usize>,
    /// The number of results.
    pub pairs: usize,
    /// The number of tests without a result.
    pub failed: usize,
    /// The smallest value: Gb/s or microseconds.
    pub min: Option<f64>,
    /// The 1st percentile.
    pub p1: Option<f64>,
    /// The median.
    pub median: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// What is slow.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Findings {
    pub(super) summaries: Vec<RailSummary>,
    pub(super) outliers: Vec<Outlier>,
    pub(super) nodes: Vec<SlowNode>,
    pub(super) ports: Vec<SlowPort>,
    pub(super) rails: Vec<SlowRail>,
}

/// A count of outliers among results.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    outliers: usize,
    pairs: usize,
}

impl Share {
    fn add(&mut self, is_outlier: bool) {
        self.pairs += 1;
        self.outliers += usize::from(is_outlier);
    }

    /// Whether more than half, and at least two, are outliers. A single bad pair does not show which end is slow.
    fn is_most(self) -> bool {
        self.outliers >= 2 && self.outliers * 2 > self.pairs
    }
}

/// Evaluates the results. Outliers are relative to a median, which a few bad pairs do not shift.
pub(super) fn evaluate(pairs: &[NodePair], kind: TestKind) -> Findings {
    let summaries = summaries(pairs);
    let medians: BTreeMap<Option<usize>, f64> =
        summaries.iter().filter_map(|summary| Some((summary.rail, summary.median?))).collect();
    let comparison = (medians.len() > 1).then(|| AllRails::new(pairs)).flatten();
    let mut outliers = Vec::new();
    let (mut of_node, mut of_port) =
        (BTreeMap::<usize, Share>::new(), BTreeMap::<(usize, usize), Share>::new());
    let mut of_rail = BTreeMap::<usize, Share>::new();
    for pair in pairs {
        let Some((value, median)) = pair.value().zip(medians.get(&pair.rail)) else { continue };
        let worse_percent = worse(kind, value, *median);
        let of_all = comparison.as_ref().and_then(|all| all.worse_percent(pair, kind));
        let is_outlier = worse_percent > OUTLIER_PERCENT;
        let is_outlier_of_all = of_all.is_some_and(|worse| worse > OUTLIER_PERCENT);
        for node in [pair.client, pair.server] {
            of_node.entry(node).or_default().add(is_outlier);
            if let Some(rail) = pair.rail {
                of_port.entry((node, rail)).or_default().add(is_outlier);
            }
        }
        if let Some(rail) = pair.rail {
            of_rail.entry(rail).or_default().add(is_outlier_of_all);
        }
        if is_outlier || is_outlier_of_all {
            let NodePair { client, server, rail, .. } = *pair;
            outliers.push(Outlier {
                client,
                server,
                rail,
                value,
                worse_percent,
                worse_percent_of_all_rails: of_all,
                explained: false,
            });
        }
    }
    let nodes = slow_nodes(&of_node, &of_port);
    let is_of_slow_node = |node: usize| nodes.iter().any(|slow| slow.node == node);
    let ports = of_port.iter().filter(|((node, _), share)| share.is_most() && !is_of_slow_node(*node));
    let ports = ports
        .map(|((node, rail), share)| SlowPort {
            node: *node,
            rail: *rail,
            outliers: share.outliers,
            pairs: share.pairs,
        })
        .collect();
    let rails = of_rail.iter().filter(|(_, share)| share.is_most());
    let rails = rails
        .map(|(rail, share)| SlowRail { rail: *rail, outliers: share.outliers, pairs: share.pairs })
        .collect();
    let mut findings = Findings { summaries, outliers: Vec::new(), nodes, ports, rails };
    for outlier in &mut outliers {
        outlier.explained = findings.explain(outlier);
    }
    outliers.sort_by(|a, b| (a.explained.cmp(&b.explained)).then(b.worst().total_cmp(&a.worst())));
    findings.outliers = outliers;
    findings
}

impl Findings {
    fn explain(&self, outlier: &Outlier) -> bool {
        let has = |node: usize| outlier.client == node || outlier.server == node;
        self.nodes.iter().any(|slow| has(slow.node))
            || self.ports.iter().any(|slow| has(slow.node) && Some(slow.rail) == outlier.rail)
            || self.rails.iter().any(|slow| Some(slow.rail) == outlier.rail)
    }
}

impl Outlier {
    /// Returns the larger of the two percentages.
    pub fn worst(&self) -> f64 {
        self.worse_percent_of_all_rails.map_or(self.worse_percent, |all| all.max(self.worse_percent))
    }
}

/// A node is slow if most of its results are outliers; with several rails, if most of its ports are slow, too.
fn slow_nodes(nodes: &BTreeMap<usize, Share>, ports: &BTreeMap<(usize, usize), Share>) -> Vec<SlowNode> {
    let is_slow = |node: usize, share: &Share| {
        let of_node = || ports.iter().filter(|((of, _), _)| *of == node);
        let slow = of_node().filter(|(_, share)| share.is_most()).count();
        match of_node().count() {
            0 => share.is_most(),
            1 => false,
            rails => slow >= 2 && slow * 2 > rails,
        }
    };
    let slow = nodes.iter().filter(|(node, share)| is_slow(**node, share));
    slow.map(|(node, share)| SlowNode { node: *node, outliers: share.outliers, pairs: share.pairs }).collect()
}

fn worse(kind: TestKind, value: f64, median: f64) -> f64 {
    let more_percent = (value - median) / median * 100.0;
    match kind {
        TestKind::Bandwidth => -more_percent,
        TestKind::Latency => more_percent,
    }
}

/// The comparison of each result with all rails.
struct AllRails {
    /// The median of the medians of the rails, so that a rail with more results does not weigh more.
    median: f64,
    /// Whether values are divided by the speed of the slower port: rails of different speeds are not outliers.
    by_speed: bool,
}

impl AllRails {
    fn new(pairs: &[NodePair]) -> Option<Self> {
        let with_result = || pairs.iter().filter(|pair| pair.record.is_some());
        let by_speed = with_result().all(|pair| speed(pair).is_some() && !is_latency(pair));
        let mut of_rails: BTreeMap<Option<usize>, Vec<f64>> = BTreeMap::new();
        for pair in with_result() {
            of_rails.entry(pair.rail).or_default().extend(comparable(pair, by_speed));
        }
        let medians = of_rails.into_values().filter_map(median);
        Some(Self { median: median(medians)?, by_speed })
    }

    fn worse_percent(&self, pair: &NodePair, kind: TestKind) -> Option<f64> {
        Some(worse(kind, comparable(pair, self.by_speed)?, self.median))
    }
}

fn comparable(pair: &NodePair, by_speed: bool) -> Option<f64> {
    let value = pair.value()?;
    if by_speed { speed(pair).map(|gbps| value / gbps) } else { Some(value) }
}

/// Returns the speed of the slower port in Gb/s.
fn speed(pair: &NodePair) -> Option<f64> {
    let record = pair.record.as_ref()?;
    let slower = record.client.speed_mbps?.min(record.server.speed_mbps?);
    u32::try_from(slower).ok().filter(|mbps| *mbps > 0).map(|mbps| f64::from(mbps) / 1000.0)
}

fn is_latency(pair: &NodePair) -> bool {
    pair.record.as_ref().is_some_and(|record| record.test.kind == TestKind::Latency)
}

fn summaries(pairs: &[NodePair]) -> Vec<RailSummary> {
    let mut of_rails: BTreeMap<Option<usize>, (Vec<f64>, usize)> = BTreeMap::new();
    for pair in pairs {
        let (values, failed) = of_rails.entry(pair.rail).or_default();
        match pair.value() {
            Some(value) => values.push(value),
            None => *failed += 1,
        }
    }
    let summary = |(rail, (values, failed)): (Option<usize>, (Vec<f64>, usize))| {
        let values = sorted(values);
        RailSummary {
            rail,
            pairs: values.len(),
            failed,
            min: values.first().copied(),
            p1: percentile(&values, 1),
            median: median(values.iter().copied()),
            p99: percentile(&values, 99),
            max: values.last().copied(),
        }
    };
    of_rails.into_iter().map(summary).collect()
}
