//! What came out of all pairs, and which of them stand out.

use serde::Serialize;

use crate::{TestKind, record::TestResult};

/// A pair that is worse than the median by more percent stands out.
pub const OUTLIER_PERCENT: f64 = 20.0;

/// The results of a mesh.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeshResult {
    /// The nodes, as they were asked for.
    pub nodes: Vec<String>,
    /// The pairs, by round.
    pub pairs: Vec<NodePair>,
    /// The median of the averages: Gb/s, or microseconds.
    pub median: Option<f64>,
    /// Pairs that are much worse than the median.
    pub outliers: Vec<Outlier>,
    /// Nodes of which most pairs are.
    pub slow_nodes: Vec<SlowNode>,
}

/// Two nodes, and the result between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePair {
    /// The place of the client among the nodes.
    pub client: usize,
    /// The place of the server.
    pub server: usize,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<TestResult>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A pair that stands out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlier {
    /// The place of the client among the nodes.
    pub client: usize,
    /// The place of the server.
    pub server: usize,
    /// The pair's average.
    pub value: f64,
    /// By how many percent it is worse than the median.
    pub worse_percent: f64,
}

/// A node that stands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowNode {
    /// Its place among the nodes.
    pub node: usize,
    /// How many of its pairs stand out.
    pub outliers: usize,
    /// How many pairs it has a result of.
    pub pairs: usize,
}

impl MeshResult {
    /// Judges pairs: by their median, so that a few bad ones do not shift what is usual.
    pub fn new(nodes: Vec<String>, pairs: Vec<NodePair>, kind: TestKind) -> Self {
        let median = median(pairs.iter().filter_map(NodePair::value).collect());
        let outliers: Vec<Outlier> = median.map_or_else(Vec::new, |median| {
            pairs.iter().filter_map(|pair| outlier(pair, median, kind)).collect()
        });
        let slow_nodes = (0..nodes.len()).filter_map(|node| slow(node, &pairs, &outliers)).collect();
        Self { nodes, pairs, median, outliers, slow_nodes }
    }

    /// How many pairs have no result.
    pub fn failures(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.record.is_none()).count()
    }

    /// Whether a pair is below what is expected, or stands out.
    pub fn is_wrong(&self) -> bool {
        let failed =
            |pair: &NodePair| pair.record.as_ref().is_some_and(|record| record.verdict.passed == Some(false));
        !self.outliers.is_empty() || self.pairs.iter().any(failed)
    }

    /// The result between two nodes, whichever was the client.
    pub fn between(&self, a: usize, b: usize) -> Option<&NodePair> {
        self.pairs.iter().find(|pair| [(a, b), (b, a)].contains(&(pair.client, pair.server)))
    }
}

impl NodePair {
    /// The average of its result.
    pub fn value(&self) -> Option<f64> {
        self.record.as_ref().and_then(TestResult::value)
    }

    fn has(&self, node: usize) -> bool {
        self.client == node || self.server == node
    }
}

fn outlier(pair: &NodePair, median: f64, kind: TestKind) -> Option<Outlier> {
    let value = pair.value()?;
    let more_percent = (value - median) / median * 100.0;
    let worse_percent = match kind {
        TestKind::Bandwidth => -more_percent,
        TestKind::Latency => more_percent,
    };
    let NodePair { client, server, .. } = *pair;
    (worse_percent > OUTLIER_PERCENT).then_some(Outlier { client, server, value, worse_percent })
}

/// More than half of its pairs, and at least two: of one bad pair nobody knows which end it is.
fn slow(node: usize, pairs: &[NodePair], outliers: &[Outlier]) -> Option<SlowNode> {
    let pairs = pairs.iter().filter(|pair| pair.has(node) && pair.record.is_some()).count();
    let outliers = outliers.iter().filter(|pair| pair.client == node || pair.server == node).count();
    (outliers >= 2 && outliers * 2 > pairs).then_some(SlowNode { node, outliers, pairs })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mesh::rounds, record::tests::record};

    /// A mesh of four in which pairs have these values, or none.
    fn mesh(value: impl Fn(usize, usize) -> Option<f64>) -> MeshResult {
        let pair = |(client, server)| NodePair {
            client,
            server,
            record: value(client, server).map(record),
            error: value(client, server).is_none().then(|| "no".into()),
        };
        let nodes = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        MeshResult::new(nodes, rounds(4).into_iter().flatten().map(pair).collect(), TestKind::Bandwidth)
    }

    #[test]
    fn like_among_like_nobody_stands_out() {
        let mesh = mesh(|a, b| Some(if (a + b) % 2 == 0 { 96.0 } else { 92.0 }));
        assert_eq!((mesh.median, mesh.outliers.len(), mesh.slow_nodes.len()), (Some(92.0), 0, 0));
        assert!(!mesh.is_wrong());
    }

    #[test]
    fn one_bad_pair_stands_out_and_accuses_nobody() {
        let mesh = mesh(|a, b| Some(if (a, b) == (0, 2) { 40.0 } else { 95.0 }));
        assert_eq!((mesh.outliers[0].client, mesh.outliers[0].server, mesh.outliers.len()), (0, 2, 1));
        assert_eq!(mesh.outliers[0].worse_percent.round(), 58.0);
        assert!(mesh.slow_nodes.is_empty() && mesh.is_wrong());
    }

    #[test]
    fn one_bad_pair_accuses_nobody_even_if_it_is_the_only_one_of_a_node() {
        let mesh = mesh(|a, b| match (a, b) {
            (0, 1) => Some(40.0),
            (0, _) => None,
            _ => Some(95.0),
        });
        assert_eq!((mesh.outliers.len(), mesh.slow_nodes.len()), (1, 0));
    }

    #[test]
    fn a_bad_node_is_found() {
        // Each of its pairs is bad, and that is half of all pairs.
        let mesh = mesh(|a, b| Some(if a == 3 || b == 3 { 40.0 } else { 95.0 }));
        assert_eq!(mesh.slow_nodes, [SlowNode { node: 3, outliers: 3, pairs: 3 }]);
    }

    #[test]
    fn what_failed_is_counted_and_the_rest_is_judged() {
        let mesh = mesh(|a, b| (a != 1 && b != 1).then_some(95.0));
        assert_eq!((mesh.failures(), mesh.median), (3, Some(95.0)));
        assert!(mesh.between(2, 0).unwrap().record.is_some() && mesh.between(1, 0).unwrap().error.is_some());
        let none = super::MeshResult::new(vec!["a".into()], Vec::new(), TestKind::Latency);
        assert_eq!((none.median, none.failures()), (None, 0));
    }
}
