//! A prober: a few messages to a few other nodes on each rail, again and again, so that latency and loss are series.
//!
//! A probe is a latency test of perftest with a fixed number of messages over a reliable connection, through the agent of the
//! other node (`silkrail check serve`). A message that is lost is sent again by the card after its ack timeout, which perftest
//! sets to 67 ms, so lost messages are those that took longer.

mod exposition;
mod peers;
mod record;
mod round;

pub use exposition::{FILE, text};
pub use peers::{ResolvedHosts, own_addresses, peers};
pub use record::{FailureReason, ProbeRecord, ProbedPair, RailRecord};
pub use round::{ProbeOutcome, Prober, ProberOptions};
