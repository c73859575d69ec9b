//! What the probes of a process have seen.

use std::collections::BTreeMap;

use ::exposition::Histogram;

/// Upper bounds of round trips in seconds: from a switch hop to a message that was sent again several times.
const BOUNDS: &[f64] = &[
    1e-6, 2e-6, 3e-6, 4e-6, 6e-6, 8e-6, 12e-6, 16e-6, 25e-6, 50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, 0.1,
    0.5, 2.0,
];

/// A round trip that takes longer contains a message that was lost: the ack timeout of perftest's queue pairs is
/// 4.096 µs × 2^14.
const ACK_TIMEOUT_SECONDS: f64 = 0.067_108_864;

/// Two ports of different nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbedPair {
    /// The RDMA device of this node.
    pub device: String,
    /// The other node, as it is named in the list of hosts.
    pub peer: String,
    /// The RDMA device of the other node.
    pub peer_device: String,
}

/// What was seen between two ports.
#[derive(Debug, Clone, PartialEq)]
pub struct RailRecord {
    /// Round trips in seconds.
    pub round_trips: Histogram,
    /// Messages that were lost and sent again.
    pub lost: u64,
    /// Probes that completed.
    pub probes: u64,
    /// Probes during which RDMA failed: perftest was run, and measured nothing.
    pub failures: u64,
}

/// Why a probe was not made or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureReason {
    /// The agent of the node is not reachable, or does not trust this one.
    Agent,
    /// The ports are used by other tests.
    Busy,
    /// The nodes have no rail in common.
    NoRail,
    /// One of the nodes could not start the test: perftest is missing, a port is down, the connection ended.
    NotStarted,
}

impl FailureReason {
    /// Returns the name, as in the label `reason`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Busy => "busy",
            Self::NoRail => "no_rail",
            Self::NotStarted => "not_started",
        }
    }
}

/// What the probes since the start of the process have seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeRecord {
    /// By pair of ports.
    pub rails: BTreeMap<ProbedPair, RailRecord>,
    /// The number of probes that were not made, by the other node and the reason.
    pub not_made: BTreeMap<(String, FailureReason), u64>,
}

impl Default for RailRecord {
    fn default() -> Self {
        Self { round_trips: Histogram::new(BOUNDS), lost: 0, probes: 0, failures: 0 }
    }
}

impl RailRecord {
    /// Adds a probe that completed, with the round trip of each message in seconds.
    pub fn add(&mut self, round_trips: impl IntoIterator<Item = f64>) {
        self.probes += 1;
        for round_trip in round_trips {
            self.round_trips.observe(round_trip);
            self.lost += u64::from(round_trip >= ACK_TIMEOUT_SECONDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_waited_for_the_ack_timeout_was_lost() {
        let mut record = RailRecord::default();
        record.add([2e-6, 3e-6, 0.068, 0.066]);
        assert_eq!((record.probes, record.lost, record.round_trips.count()), (1, 1, 4));
        assert!(BOUNDS.is_sorted());
        record.add([0.1, 0.2]);
        assert_eq!((record.probes, record.lost, record.failures), (2, 3, 0));
        record.add([ACK_TIMEOUT_SECONDS]);
        assert_eq!(record.lost, 4, "the timeout itself has passed");
    }
}
