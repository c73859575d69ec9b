//! The results of all pairs, and what they show.

use serde::Serialize;

use super::{
    outliers::{Outlier, RailSummary, SlowNode, SlowPort, SlowRail, evaluate},
    pair::NodePair,
    rails::{MissingPort, Rail},
    statistics::median,
};
use crate::TestKind;

/// The results of a mesh.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeshResult {
    /// The nodes, as given on the command line.
    pub nodes: Vec<String>,
    /// The rails; empty if rails are not tested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<Rail>,
    /// The pairs, in the order of the rounds.
    pub pairs: Vec<NodePair>,
    /// The median of the averages of all pairs: Gb/s for bandwidth, microseconds for latency.
    pub median: Option<f64>,
    /// The distribution of the results of each rail.
    pub summaries: Vec<RailSummary>,
    /// Pairs that are worse than the median of their rail, or of all rails, by more than
    /// [`OUTLIER_PERCENT`](super::OUTLIER_PERCENT): those first that nothing below explains, and of these the worst.
    pub outliers: Vec<Outlier>,
    /// Nodes most of whose pairs are outliers.
    pub slow_nodes: Vec<SlowNode>,
    /// Ports of otherwise good nodes, most of whose pairs are outliers.
    pub slow_ports: Vec<SlowPort>,
    /// Rails most of whose pairs are worse than the median of all rails.
    pub slow_rails: Vec<SlowRail>,
    /// Ports that are missing on a rail, or not usable.
    pub missing_ports: Vec<MissingPort>,
    /// Nodes that were not tested, or not to the end.
    pub failed_nodes: Vec<FailedNode>,
    /// Why the test ended before its last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopReason>,
}

/// A node that was not tested, or not to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedNode {
    /// The index of the node.
    pub node: usize,
    /// The index of the rail, if only this rail was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<usize>,
    /// Why.
    pub error: String,
}

/// Why a mesh test ended before its last round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The process received SIGINT, SIGTERM or SIGHUP.
    Interrupted,
    /// The time limit was reached.
    TimeLimit,
}

impl MeshResult {
    /// Evaluates the pairs.
    pub fn new(nodes: Vec<String>, rails: Vec<Rail>, pairs: Vec<NodePair>, kind: TestKind) -> Self {
        let found = evaluate(&pairs, kind);
        Self {
            nodes,
            rails,
            median: median(pairs.iter().filter_map(NodePair::value)),
            pairs,
            summaries: found.summaries,
            outliers: found.outliers,
            slow_nodes: found.nodes,
            slow_ports: found.ports,
            slow_rails: found.rails,
            missing_ports: Vec::new(),
            failed_nodes: Vec::new(),
            stopped: None,
        }
    }

    /// Returns the number of pairs without a result.
    pub fn failures(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.record.is_none()).count()
    }

    /// Whether a node, a port or a pair has no result.
    pub fn is_incomplete(&self) -> bool {
        self.failures() > 0
            || !self.failed_nodes.is_empty()
            || !self.missing_ports.is_empty()
            || self.stopped.is_some()
    }

    /// Whether any pair is below its threshold or an outlier.
    pub fn is_wrong(&self) -> bool {
        !self.outliers.is_empty() || self.below_threshold().next().is_some()
    }

    /// Returns the pairs that are below their threshold.
    pub fn below_threshold(&self) -> impl Iterator<Item = &NodePair> {
        self.pairs
            .iter()
            .filter(|pair| pair.record.as_ref().is_some_and(|record| record.verdict.passed == Some(false)))
    }

    /// Returns the pair of two nodes, in either direction.
    pub fn between(&self, a: usize, b: usize) -> Option<&NodePair> {
        self.pairs.iter().find(|pair| [(a, b), (b, a)].contains(&(pair.client, pair.server)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mesh::rounds::{rounds, sample},
        test_result::tests::record,
    };

    /// A mesh of four nodes whose pairs have these values; `None` is a failed test.
    fn mesh(value: impl Fn(usize, usize) -> Option<f64>) -> MeshResult {
        let pair = |(client, server)| NodePair {
            client,
            server,
            rail: None,
            record: value(client, server).map(record),
            error: value(client, server).is_none().then(|| "no".into()),
            skipped: false,
        };
        let nodes = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        MeshResult::new(
            nodes,
            Vec::new(),
            rounds(4).into_iter().flatten().map(pair).collect(),
            TestKind::Bandwidth,
        )
    }

    #[test]
    fn similar_values_have_no_outliers() {
        let mesh = mesh(|a, b| Some(if (a + b) % 2 == 0 { 96.0 } else { 92.0 }));
        assert_eq!((mesh.median, mesh.outliers.len(), mesh.slow_nodes.len()), (Some(92.0), 0, 0));
        assert!(!mesh.is_wrong());
    }

    #[test]
    fn a_result_that_is_worse_by_just_the_limit_is_no_outlier_and_a_better_one_never() {
        let of = |value| mesh(|a, b| Some(if (a, b) == (0, 2) { value } else { 100.0 })).outliers.len();
        assert_eq!([80.0, 79.9, 200.0].map(of), [0, 1, 0]);
    }

    #[test]
    fn a_mesh_is_incomplete_or_wrong_for_any_of_its_reasons() {
        let good = || mesh(|_, _| Some(95.0));
        assert!(!good().is_incomplete() && !good().is_wrong());
        let mut stopped = good();
        stopped.stopped = Some(StopReason::TimeLimit);
        let mut failed = good();
        failed.failed_nodes.push(FailedNode { node: 1, rail: None, error: "no".into() });
        let mut missing = good();
        missing.missing_ports.push(MissingPort { node: 1, rail: 0, why: "down".into() });
        for mesh in [stopped, failed, missing, mesh(|a, _| (a > 0).then_some(95.0))] {
            assert!(mesh.is_incomplete() && !mesh.is_wrong(), "{mesh:?}");
        }
        // All alike, and below the threshold of 80.
        let low = mesh(|_, _| Some(79.0));
        assert!(low.is_wrong() && low.outliers.is_empty() && low.below_threshold().count() == 6);
    }

    #[test]
    fn a_node_with_a_high_latency_is_slow_and_one_with_a_low_latency_is_not() {
        let pair = |(client, server)| {
            let us = if client == 3 || server == 3 { 9.0 } else { 2.0 };
            let mut record = record(1.0);
            record.test.kind = TestKind::Latency;
            let latency = crate::perftest::Latency { average_us: us, ..Default::default() };
            (record.measurement.bandwidth, record.measurement.latency) = (None, Some(latency));
            // The speeds of the ports do not matter.
            record.client.speed_mbps = Some(if client == 0 { 25_000 } else { 100_000 });
            NodePair { client, server, rail: None, record: Some(record), error: None, skipped: false }
        };
        let nodes: Vec<String> = (0..5).map(|node| format!("node{node}")).collect();
        let all: Vec<_> = rounds(5).into_iter().flatten().map(pair).collect();
        let mesh = MeshResult::new(nodes.clone(), Vec::new(), all.clone(), TestKind::Latency);
        assert_eq!(mesh.slow_nodes, [SlowNode { node: 3, outliers: 4, pairs: 4 }]);
        let two_rails: Vec<_> = (0..2)
            .flat_map(|rail| all.iter().map(move |pair| NodePair { rail: Some(rail), ..pair.clone() }))
            .collect();
        let mesh = MeshResult::new(nodes, Vec::new(), two_rails, TestKind::Latency);
        assert_eq!((mesh.slow_nodes.len(), mesh.slow_rails.len(), mesh.outliers.len()), (1, 0, 8));
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
        assert!(mesh.between(0, 2).unwrap().record.is_some() && mesh.between(2, 2).is_none());
        let [summary] = mesh.summaries[..] else { panic!("{:?}", mesh.summaries) };
        assert_eq!((summary.pairs, summary.failed, summary.rail), (3, 3, None));
        let none = super::MeshResult::new(vec!["a".into()], Vec::new(), Vec::new(), TestKind::Latency);
        assert_eq!((none.median, none.failures()), (None, 0));
    }

    /// A mesh of `nodes` nodes on four rails, each with eight others, whose values are these.
    fn rails(nodes: usize, value: impl Fn(usize, usize, usize) -> f64) -> MeshResult {
        let mut pairs = Vec::new();
        for (client, server) in sample(nodes, 8, 1).into_iter().flatten() {
            for rail in 0..4 {
                let record = Some(record(value(client, server, rail)));
                pairs.push(NodePair {
                    client,
                    server,
                    rail: Some(rail),
                    record,
                    error: None,
                    skipped: false,
                });
            }
        }
        let rail = |n: usize| Rail { device: format!("mlx5_{n}"), network: None };
        let nodes = (0..nodes).map(|node| format!("node{node}")).collect();
        MeshResult::new(nodes, (0..4).map(rail).collect(), pairs, TestKind::Bandwidth)
    }

    #[test]
    fn a_slow_port_of_one_node_is_named_and_nothing_else() {
        let mesh = rails(32, |a, b, rail| if rail == 2 && (a == 7 || b == 7) { 40.0 } else { 94.0 });
        assert_eq!(mesh.slow_ports, [SlowPort { node: 7, rail: 2, outliers: 8, pairs: 8 }]);
        assert!(mesh.slow_nodes.is_empty() && mesh.slow_rails.is_empty());
        assert_eq!(mesh.outliers.len(), 8);
        assert!(mesh.outliers.iter().all(|outlier| outlier.explained));
    }

    #[test]
    fn a_slow_rail_is_named_although_all_its_pairs_are_alike() {
        let mesh = rails(32, |_, _, rail| if rail == 1 { 47.0 } else { 94.0 });
        assert_eq!(mesh.slow_rails, [SlowRail { rail: 1, outliers: 128, pairs: 128 }]);
        // If one speed is unknown, the results are compared as they are.
        let mut unknown = mesh.pairs.clone();
        let of_rail = unknown.iter_mut().find(|pair| pair.rail == Some(1)).unwrap();
        of_rail.record.as_mut().unwrap().server.speed_mbps = None;
        let again = MeshResult::new(mesh.nodes.clone(), mesh.rails.clone(), unknown, TestKind::Bandwidth);
        assert_eq!((again.slow_rails, again.outliers.len()), (mesh.slow_rails.clone(), 128));
        assert!(mesh.slow_nodes.is_empty() && mesh.slow_ports.is_empty());
        let outlier = &mesh.outliers[0];
        assert_eq!((outlier.worse_percent, outlier.worse_percent_of_all_rails.unwrap().round()), (0.0, 50.0));
    }

    #[test]
    fn a_slow_port_on_a_slow_rail_is_found_too() {
        let mesh = rails(32, |a, b, rail| match (rail, a == 7 || b == 7) {
            (1, true) => 20.0,
            (1, false) => 47.0,
            _ => 94.0,
        });
        assert_eq!((mesh.slow_rails.len(), mesh.slow_ports.len()), (1, 1));
        assert_eq!((mesh.slow_ports[0].node, mesh.slow_ports[0].rail), (7, 1));
    }

    #[test]
    fn a_node_that_is_slow_on_all_rails_is_named_once() {
        let mesh = rails(32, |a, b, _| if a == 7 || b == 7 { 40.0 } else { 94.0 });
        assert_eq!(mesh.slow_nodes, [SlowNode { node: 7, outliers: 32, pairs: 32 }]);
        assert!(mesh.slow_ports.is_empty() && mesh.slow_rails.is_empty());
    }

    #[test]
    fn a_node_is_slow_if_most_of_its_ports_are() {
        let slow_on = |rails_of_7: usize| {
            let mesh =
                rails(32, |a, b, rail| if rail < rails_of_7 && (a == 7 || b == 7) { 40.0 } else { 94.0 });
            (mesh.slow_nodes.len(), mesh.slow_ports.len())
        };
        assert_eq!([1, 2, 3].map(slow_on), [(0, 1), (0, 2), (1, 0)]);
    }

    #[test]
    fn outliers_that_nothing_explains_come_first_and_the_worst_of_them_before_the_others() {
        let pairs = sample(32, 8, 1);
        let of_7 = |pair: &&(usize, usize)| pair.0 == 7 || pair.1 == 7;
        let (one, other) =
            (*pairs[0].iter().find(of_7).unwrap(), *pairs[1].iter().find(|pair| !of_7(pair)).unwrap());
        let mesh = rails(32, |a, b, rail| match rail {
            2 if a == 7 || b == 7 => 10.0,
            // The slow port is of another rail, and so explains nothing here.
            0 if (a, b) == one => 60.0,
            0 if (a, b) == other => 50.0,
            _ => 94.0,
        });
        assert_eq!((mesh.slow_ports.len(), mesh.outliers.len()), (1, 10));
        let first: Vec<_> = mesh.outliers[..3].iter().map(|it| (it.value, it.explained)).collect();
        assert_eq!(first, [(50.0, false), (60.0, false), (10.0, true)]);
    }

    #[test]
    fn rails_of_different_speeds_are_compared_by_their_speeds() {
        let mut mesh = rails(32, |_, _, rail| if rail == 3 { 23.5 } else { 94.0 });
        for pair in mesh.pairs.iter_mut().filter(|pair| pair.rail == Some(3)) {
            let record = pair.record.as_mut().unwrap();
            (record.client.speed_mbps, record.server.speed_mbps) = (Some(25_000), Some(400_000));
        }
        let again = MeshResult::new(mesh.nodes, mesh.rails, mesh.pairs, TestKind::Bandwidth);
        assert!(again.slow_rails.is_empty() && again.outliers.is_empty(), "{:?}", again.slow_rails);
    }
}
