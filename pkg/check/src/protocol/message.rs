//! The messages after the handshake.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    PortSelector, TestSpec,
    node_port::NodePort,
    protocol::refusal::AgentRefusal,
    sanitized_text::SanitizedText,
    test_result::{TestEnd, TestResult},
    verdict::Threshold,
};

/// A message from a client to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AgentRequest {
    /// Requests a test with the agent as the server.
    Test {
        /// What to measure.
        test: TestSpec,
        /// The device, port and GID for the agent's end.
        #[serde(default)]
        wanted: PortSelector,
        /// The address of the client's GID. The agent selects a GID that fits it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gid: Option<IpAddr>,
    },
    /// Reports that perftest has exited on the client.
    Finished,
    /// Requests the list of the agent's ports.
    Ports,
    /// Requests tests with the agent as the client of another agent.
    Run(Box<RemoteTest>),
}

/// Maximum number of rails that two agents test at the same time.
pub const MAX_RAILS: usize = 16;

/// A test between two agents, on behalf of a client: on one or several rails at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteTest {
    /// The IPv4 address and the port of the other agent.
    pub against: std::net::SocketAddr,
    /// What to measure.
    pub test: TestSpec,
    /// The two ends of each rail; at least one, and at most [`MAX_RAILS`].
    pub rails: Vec<RailEnds>,
    /// The threshold for the verdict.
    #[serde(default)]
    pub limit: Threshold,
}

/// The two ends of a rail.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RailEnds {
    /// The device, port and GID for this agent's end.
    #[serde(default)]
    pub wanted: PortSelector,
    /// The device, port and GID for the other agent's end.
    #[serde(default)]
    pub peer_wanted: PortSelector,
}

/// A message from an agent to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentReply {
    /// perftest's server listens; the client can connect.
    Ready {
        /// The TCP port of perftest's server.
        tcp_port: u16,
        /// The agent's end: its device, port and GID.
        end: Box<TestEnd>,
    },
    /// The test is over.
    Done {
        /// The agent's end, with the growth of its counters.
        end: Box<TestEnd>,
    },
    /// A test between two agents is still running.
    Working,
    /// The agent's ports.
    Ports {
        /// The hostname of the node.
        node: SanitizedText,
        /// The ports, in the order of their PCI addresses.
        ports: Vec<NodePort>,
    },
    /// The result of one rail of a test between two agents.
    Result {
        /// The index of the rail in the request.
        rail: usize,
        /// The result.
        record: Box<TestResult>,
    },
    /// The failure of one rail of a test between two agents.
    RailFailed {
        /// The index of the rail in the request.
        rail: usize,
        /// The reason.
        refusal: AgentRefusal,
    },
    /// All rails have a result or have failed.
    RunDone,
    /// The agent refuses the request, or the test failed.
    Refused(AgentRefusal),
}
