//! What is said after the handshake.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    PortSelector, TestSpec,
    label::SanitizedText,
    record::{TestEnd, TestResult},
    verdict::Threshold,
};

/// What a client asks of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum AgentRequest {
    /// Be the server of a test.
    Test {
        /// Which.
        test: TestSpec,
        /// What the agent is to use for it.
        #[serde(default)]
        wanted: PortSelector,
        /// The address of the client's GID: the agent chooses one that goes with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gid: Option<IpAddr>,
    },
    /// The client's perftest has ended.
    Finished,
    /// Be the client of another agent.
    Run(Box<RemoteTest>),
}

/// A test between two agents, for somebody else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteTest {
    /// Where the other agent listens.
    pub against: std::net::SocketAddr,
    /// Which test.
    pub test: TestSpec,
    /// What this agent is to use.
    #[serde(default)]
    pub wanted: PortSelector,
    /// What the other agent is to use.
    #[serde(default)]
    pub peer_wanted: PortSelector,
    /// What is enough.
    #[serde(default)]
    pub limit: Threshold,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentReply {
    /// perftest's server listens.
    Ready {
        /// Where.
        tcp_port: u16,
        /// What it uses.
        end: Box<TestEnd>,
    },
    /// The test is over.
    Done {
        /// What was used and counted.
        end: Box<TestEnd>,
    },
    /// A test between two agents is under way.
    Working,
    /// Its result.
    Result {
        /// The result.
        record: Box<TestResult>,
    },
    /// It will not or could not.
    Refused(AgentRefusal),
}

/// Why an agent will not or could not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRefusal {
    /// For programs.
    pub reason: RefusalReason,
    /// For people.
    pub message: SanitizedText,
}

/// Why an agent will not or could not, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusalReason {
    /// Another test is under way.
    Busy,
    /// The token is wrong or missing.
    Token,
    /// Another version of the protocol.
    Version,
    /// The client has connected to another address than the agent's.
    Address,
    /// perftest gave no usable number, and may do better the next time.
    Unusable,
    /// The test could not be done.
    Failed,
}

impl fmt::Display for AgentRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}
