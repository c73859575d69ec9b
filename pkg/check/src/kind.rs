//! What is measured, and by which program.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// How much data goes through.
    Bandwidth,
    /// How long one message takes.
    Latency,
}

/// The verb that carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// RDMA read.
    Read,
    /// RDMA write.
    Write,
    /// Send and receive.
    Send,
}

impl Kind {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Latency => "latency",
        }
    }
}

impl Operation {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
        }
    }

    /// The program of perftest that measures it.
    pub fn program(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Self::Read, Kind::Bandwidth) => "ib_read_bw",
            (Self::Write, Kind::Bandwidth) => "ib_write_bw",
            (Self::Send, Kind::Bandwidth) => "ib_send_bw",
            (Self::Read, Kind::Latency) => "ib_read_lat",
            (Self::Write, Kind::Latency) => "ib_write_lat",
            (Self::Send, Kind::Latency) => "ib_send_lat",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text names no operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected read, write or send")]
pub struct InvalidOperation;

impl FromStr for Operation {
    type Err = InvalidOperation;

    fn from_str(text: &str) -> Result<Self, InvalidOperation> {
        let all = [Self::Read, Self::Write, Self::Send];
        all.into_iter().find(|operation| operation.name() == text).ok_or(InvalidOperation)
    }
}
