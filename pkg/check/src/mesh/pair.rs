//! Two nodes, and the result of the test between them.

use serde::Serialize;

use crate::test_result::TestResult;

/// Two nodes, and the result between them, on one rail if rails are tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePair {
    /// The index of the client in the list of nodes.
    pub client: usize,
    /// The index of the server in the list of nodes.
    pub server: usize,
    /// The index of the rail, if rails are tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rail: Option<usize>,
    /// The result, if the test succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<TestResult>,
    /// The error, if the test failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the test was not started, because a node had been given up or the time was over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

impl NodePair {
    /// Returns the average of the result: Gb/s or microseconds.
    pub fn value(&self) -> Option<f64> {
        self.record.as_ref().and_then(TestResult::value)
    }

    /// Whether the node is one of the two.
    pub fn has(&self, node: usize) -> bool {
        self.client == node || self.server == node
    }
}
