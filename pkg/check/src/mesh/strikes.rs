//! Gives up nodes, or ports of nodes, that repeatedly do not respond, so that they cost only the first rounds their time limit.

use std::collections::{BTreeMap, BTreeSet};

use super::{pair::NodePair, result::FailedNode};

/// The number of tests in a row without a response after which a node's port is given up.
const MAX_STRIKES: u32 = 2;

/// Counts the tests in a row in which each port did not respond.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    counts: BTreeMap<(usize, Option<usize>), u32>,
    reasons: BTreeMap<(usize, Option<usize>), String>,
}

impl Strikes {
    /// Counts the outcome of a test for both ends. Which end is at fault is not known; the other one will respond in its next
    /// test.
    pub(super) fn count(&mut self, pair: &NodePair, is_silent: bool) {
        for node in [pair.client, pair.server] {
            let count = self.counts.entry((node, pair.rail)).or_default();
            *count = if is_silent { *count + 1 } else { 0 };
            if *count == MAX_STRIKES {
                let why = pair.error.as_deref().unwrap_or("no result");
                let why = format!("given up after {MAX_STRIKES} tests without a response; the last: {why}");
                self.reasons.insert((node, pair.rail), why);
            }
        }
    }

    /// Whether the port has been given up.
    pub(super) fn has_given_up(&self, node: usize, rail: Option<usize>) -> bool {
        self.reasons.contains_key(&(node, rail))
    }

    /// Returns the nodes and ports that were given up: a node once if all of the rails that it was tested on were.
    pub(super) fn failed(&self) -> Vec<FailedNode> {
        let mut failed = Vec::new();
        let mut whole = BTreeSet::new();
        for ((node, rail), error) in &self.reasons {
            let mut tested = self.counts.keys().filter(|(other, _)| other == node);
            let rail = rail.filter(|_| !tested.all(|(node, rail)| self.has_given_up(*node, *rail)));
            if rail.is_some() || whole.insert(*node) {
                failed.push(FailedNode { node: *node, rail, error: error.clone() });
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(client: usize, server: usize, rail: usize) -> NodePair {
        let error = Some("timed out".into());
        NodePair { client, server, rail: Some(rail), record: None, error, skipped: false }
    }

    #[test]
    fn a_port_is_given_up_after_two_silent_tests_in_a_row() {
        let mut strikes = Strikes::default();
        strikes.count(&pair(0, 1, 0), true);
        strikes.count(&pair(0, 1, 1), false);
        strikes.count(&pair(2, 1, 0), false);
        strikes.count(&pair(0, 3, 0), true);
        strikes.count(&pair(3, 2, 0), false);
        for is_silent in [true, false, true] {
            strikes.count(&pair(4, 5, 0), is_silent);
        }
        assert!(strikes.has_given_up(0, Some(0)) && !strikes.has_given_up(0, Some(1)));
        let failed = strikes.failed();
        assert_eq!((failed.len(), failed[0].node, failed[0].rail), (1, 0, Some(0)));
        assert!(failed[0].error.ends_with("timed out"), "{failed:?}");
    }

    #[test]
    fn a_node_whose_ports_are_all_silent_is_named_once() {
        let mut strikes = Strikes::default();
        for (server, rail) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            strikes.count(&pair(0, server, rail), true);
        }
        let failed = strikes.failed();
        assert_eq!((failed.len(), failed[0].node, failed[0].rail), (1, 0, None));
    }
}
