//! The results of all pairs, and the outliers among them.

use serde::Serialize;

use crate::{TestKind, test_result::TestResult};

/// A pair that is worse than the median by more than this percentage is an outlier.
pub const OUTLIER_PERCENT: f64 = 20.0;

/// The results of a mesh.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeshResult {
    /// The nodes, as given on the command line.
    pub nodes: Vec<String>,
    /// The pairs, in the order of the rounds.
    pub pairs: Vec<NodePair>,
    /// The median of the averages: Gb/s for bandwidth, microseconds for latency.
    pub median: Option<f64>,
    /// Pairs that are worse than the median by more than [`OUTLIER_PERCENT`].
    pub outliers: Vec<Outlier>,
    /// Nodes most of whose pairs are outliers.
    pub slow_nodes: Vec<SlowNode>,
}

/// Two nodes, and the result between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePair {
    /// The index of the client in [`MeshResult::nodes`].
    pub client: usize,
    /// The index of the server in [`MeshResult::nodes`].
    pub server: usize,
    /// The result, if the test succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<TestResult>,
    /// The error, if the test failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A pair that is much worse than the median.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlier {
    /// The index of the client in [`MeshResult::nodes`].
    pub client: usize,
    /// The index of the server in [`MeshResult::nodes`].
    pub server: usize,
    /// The average of the pair: Gb/s or microseconds.
    pub value: f64,
    /// By how many percent it is worse than the median.
    pub worse_percent: f64,
}

/// A node most of whose pairs are outliers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowNode {
    /// The index of the node in [`MeshResult::nodes`].
    pub node: usize,
    /// The number of its pairs that are outliers.
    pub outliers: usize,
    /// The number of its pairs with a result.
    pub pairs: usize,
}

impl MeshResult {
    /// Evaluates the pairs. Outliers are relative to the median, which a few bad pairs do not shift.
    pub fn new(nodes: Vec<String>, pairs: Vec<NodePair>, kind: TestKind) -> Self {
        let median = median(pairs.iter().filter_map(NodePair::value).collect());
        let outliers: Vec<Outlier> = median.map_or_else(Vec::new, |median| {
            pairs.iter().filter_map(|pair| outlier(pair, median, kind)).collect()
        });
        let slow_nodes = (0..nodes.len()).filter_map(|node| slow(node, &pairs, &outliers)).collect();
        Self { nodes, pairs, median, outliers, slow_nodes }
    }

    /// Returns the number of pairs without a result.
    pub fn failures(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.record.is_none()).count()
    }

    /// Whether any pair is below its threshold or an outlier.
    pub fn is_wrong(&self) -> bool {
        let failed =
            |pair: &NodePair| pair.record.as_ref().is_some_and(|record| record.verdict.passed == Some(false));
        !self.outliers.is_empty() || self.pairs.iter().any(failed)
    }

    /// Returns the pair of two nodes, in either direction.
    pub fn between(&self, a: usize, b: usize) -> Option<&NodePair> {
        self.pairs.iter().find(|pair| [(a, b), (b, a)].contains(&(pair.client, pair.server)))
    }
}

impl NodePair {
    /// Returns the average of the result: Gb/s or microseconds.
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

/// Returns the node if more than half of its pairs, and at least two, are outliers. A single bad pair does not show which
/// end is slow.
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
    use crate::{mesh::rounds, test_result::tests::record};

    /// A mesh of four nodes whose pairs have these values; `None` is a failed test.
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
    fn similar_values_have_no_outliers() {
        let mesh = mesh(|a, b| Some(if (a + b) % 2 == 0 { 96.0 } else { 92.0 }));
        assert_eq!((mesh.median, mesh.outliers.len(), mesh.slow_nodes.len()), (Some(92.0), 0, 0));
        assert!(!mesh.is_wrong());
    }

    #[test]
    fn one_bad_pair_is_an_outlier_and_no_node_is_slow() {
        let mesh = mesh(|a, b| Some(if (a, b) == (0, 2) { 40.0 } else { 95.0 }));
        assert_eq!((mesh.outliers[0].client, mesh.outliers[0].server, mesh.outliers.len()), (0, 2, 1));
        assert_eq!(mesh.outliers[0].worse_percent.round(), 58.0);
        assert!(mesh.slow_nodes.is_empty() && mesh.is_wrong());
    }

    #[test]
    fn one_bad_pair_makes_no_node_slow_even_if_it_is_its_only_one() {
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
    fn failed_pairs_are_counted_and_the_others_evaluated() {
        let mesh = mesh(|a, b| (a != 1 && b != 1).then_some(95.0));
        assert_eq!((mesh.failures(), mesh.median), (3, Some(95.0)));
        assert!(mesh.between(2, 0).unwrap().record.is_some() && mesh.between(1, 0).unwrap().error.is_some());
        let none = super::MeshResult::new(vec!["a".into()], Vec::new(), TestKind::Latency);
        assert_eq!((none.median, none.failures()), (None, 0));
    }
}
