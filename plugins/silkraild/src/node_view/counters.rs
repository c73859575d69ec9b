//! Counters, under names that have the same meaning for every driver.

use std::collections::BTreeMap;

use exporter::CommonTotals;
use serde::Serialize;

/// Counters of a port, or of a pod on it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CountersView {
    /// RDMA bytes received, including headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_bytes: Option<u64>,
    /// RDMA bytes sent, including headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmit_bytes: Option<u64>,
    /// RDMA packets received.
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_packets: Option<u64>,
    /// RDMA packets sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    transmit_packets: Option<u64>,
    /// Errors by kind, as in the label `error` of the metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<&'static str, u64>,
    /// Congestion events by kind, as in the label `event` of the metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    congestion: BTreeMap<&'static str, u64>,
    /// Pauses and discards, by direction and priority.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    priorities: Vec<PriorityView>,
}

/// Pauses and discards of one priority in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PriorityView {
    /// `receive` or `transmit`.
    direction: &'static str,
    /// `0` to `7`.
    priority: String,
    /// Pause frames. In direction `receive`: the network has paused this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_frames: Option<u64>,
    /// The time for which it was paused, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause_seconds: Option<f64>,
    /// Packets discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    discards: Option<u64>,
}

impl From<CommonTotals> for CountersView {
    fn from(totals: CommonTotals) -> Self {
        let priorities = totals.priorities.into_iter().map(|((direction, priority), of)| PriorityView {
            direction,
            priority,
            pause_frames: of.pause_frames,
            pause_seconds: of.pause_microseconds.map(from_microseconds),
            discards: of.discards,
        });
        Self {
            priorities: priorities.collect(),
            receive_bytes: totals.receive_bytes,
            transmit_bytes: totals.transmit_bytes,
            receive_packets: totals.receive_packets,
            transmit_packets: totals.transmit_packets,
            errors: totals.errors,
            congestion: totals.congestion,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "285 years in microseconds fit")]
fn from_microseconds(time: u64) -> f64 {
    time as f64 / 1e6
}
