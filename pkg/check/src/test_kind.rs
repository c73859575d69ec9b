//! The kind of a test and its RDMA operation, with the perftest program for both.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The quantity that a test measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TestKind {
    /// Bandwidth, in Gb/s.
    Bandwidth,
    /// Latency of one message, in microseconds.
    Latency,
}

/// The RDMA operation that transfers the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RdmaOperation {
    /// RDMA read.
    Read,
    /// RDMA write.
    Write,
    /// Send and receive.
    Send,
}

impl TestKind {
    /// Returns the name: `bandwidth` or `latency`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Latency => "latency",
        }
    }
}

impl RdmaOperation {
    /// Returns the name: `read`, `write` or `send`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
        }
    }

    /// Returns the perftest program for this operation, for example `ib_write_bw`.
    pub fn program(self, kind: TestKind) -> &'static str {
        match (self, kind) {
            (Self::Read, TestKind::Bandwidth) => "ib_read_bw",
            (Self::Write, TestKind::Bandwidth) => "ib_write_bw",
            (Self::Send, TestKind::Bandwidth) => "ib_send_bw",
            (Self::Read, TestKind::Latency) => "ib_read_lat",
            (Self::Write, TestKind::Latency) => "ib_write_lat",
            (Self::Send, TestKind::Latency) => "ib_send_lat",
        }
    }
}

impl fmt::Display for TestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for RdmaOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text is not the name of an RDMA operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected read, write or send")]
pub struct InvalidRdmaOperation;

impl FromStr for RdmaOperation {
    type Err = InvalidRdmaOperation;

    fn from_str(text: &str) -> Result<Self, InvalidRdmaOperation> {
        let all = [Self::Read, Self::Write, Self::Send];
        all.into_iter().find(|operation| operation.name() == text).ok_or(InvalidRdmaOperation)
    }
}
