//! Counters in a form that is common to all drivers.

use std::collections::BTreeMap;

use crate::{
    catalogue::{CommonMetric, Direction},
    counter_values::CounterValues,
    node_snapshot::{DeviceSnapshot, PodTraffic},
};

/// The totals of a port, or of a pod on a port. A value that the driver does not count is `None`, not 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonTotals {
    /// RDMA bytes received, with headers.
    pub receive_bytes: Option<u64>,
    /// RDMA bytes sent, with headers.
    pub transmit_bytes: Option<u64>,
    /// RDMA packets received.
    pub receive_packets: Option<u64>,
    /// RDMA packets sent.
    pub transmit_packets: Option<u64>,
    /// Errors by kind, such as `rnr_nak` and `ack_timeout`.
    pub errors: BTreeMap<&'static str, u64>,
    /// Congestion events: `ecn_marked`, `cnp_sent`, `cnp_handled`, `cnp_ignored`.
    pub congestion: BTreeMap<&'static str, u64>,
    /// Pause frames and discards, by direction (`receive`, `transmit`) and priority (`0` to `7`).
    pub priorities: BTreeMap<(&'static str, String), PriorityTotals>,
}

/// Pause frames and discards of one priority in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PriorityTotals {
    /// Number of PFC pause frames. Received frames paused this port, sent frames paused the network.
    pub pause_frames: Option<u64>,
    /// Time spent paused, in microseconds.
    pub pause_microseconds: Option<u64>,
    /// Number of packets discarded because no buffer was free.
    pub discards: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
}

impl DeviceSnapshot {
    /// Returns the totals of each port, in the order of [`DeviceReading::ports`](crate::DeviceReading::ports).
    pub fn totals(&self) -> impl Iterator<Item = CommonTotals> {
        self.port_counters.iter().map(CommonTotals::of)
    }
}

impl PodTraffic {
    /// Returns the pod's totals on the port, without congestion and pauses, which affect all users of the port.
    pub fn totals(&self) -> CommonTotals {
        CommonTotals {
            congestion: BTreeMap::new(),
            priorities: BTreeMap::new(),
            ..CommonTotals::of(&self.counter_values)
        }
    }
}

impl CommonTotals {
    fn of(counter_values: &CounterValues) -> Self {
        let mut totals = Self::default();
        for (sum, value) in counter_values.sums() {
            let priority = sum.priority.as_deref();
            match sum.role {
                CommonMetric::Bytes(Direction::Receive) => totals.receive_bytes = Some(value),
                CommonMetric::Bytes(Direction::Transmit) => totals.transmit_bytes = Some(value),
                CommonMetric::Packets(Direction::Receive) => totals.receive_packets = Some(value),
                CommonMetric::Packets(Direction::Transmit) => totals.transmit_packets = Some(value),
                CommonMetric::Error(error) => _ = totals.errors.insert(error, value),
                CommonMetric::Congestion(event) => _ = totals.congestion.insert(event, value),
                CommonMetric::PauseFrames(way) => totals.priority(way, priority).pause_frames = Some(value),
                CommonMetric::PauseMicroseconds(way) => {
                    totals.priority(way, priority).pause_microseconds = Some(value);
                }
                CommonMetric::Discards(way) => totals.priority(way, priority).discards = Some(value),
                CommonMetric::PriorityBytes(way) => totals.priority(way, priority).bytes = Some(value),
                CommonMetric::PriorityPackets(way) => totals.priority(way, priority).packets = Some(value),
            }
        }
        totals
    }

    fn priority(&mut self, direction: Direction, priority: Option<&str>) -> &mut PriorityTotals {
        let priority = priority.unwrap_or_default().to_owned();
        self.priorities.entry((direction.name(), priority)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Attribution, PodInfo,
        counter_layout::{CounterLayouts, tests::port},
    };

    fn counter_values() -> CounterValues {
        let port = port(
            &[("out_of_sequence", 3), ("np_cnp_sent", 4)],
            &[("port_xmit_data", 5), ("port_xmit_packets", 1)],
            &[
                ("rx_prio3_pause", 6),
                ("rx_prio3_pause_duration", 7),
                ("tx_prio3_discards", 8),
                ("rx_prio3_bytes", 9),
            ],
        );
        CounterValues::of_port(&port, &mut CounterLayouts::default(), None)
    }

    #[test]
    fn counted_values_are_present_and_others_are_none() {
        let totals = CommonTotals::of(&counter_values());
        assert_eq!((totals.receive_bytes, totals.transmit_bytes), (None, Some(20)));
        assert_eq!((totals.receive_packets, totals.transmit_packets), (None, Some(1)));
        assert_eq!(totals.errors, BTreeMap::from([("out_of_sequence", 3)]));
        assert_eq!(totals.congestion, BTreeMap::from([("cnp_sent", 4)]));
        let pause = PriorityTotals {
            pause_frames: Some(6),
            pause_microseconds: Some(7),
            bytes: Some(9),
            ..PriorityTotals::default()
        };
        let discards = PriorityTotals { discards: Some(8), ..PriorityTotals::default() };
        let expected = [(("receive", "3".to_owned()), pause), (("transmit", "3".to_owned()), discards)];
        assert_eq!(totals.priorities, BTreeMap::from(expected));
    }

    #[test]
    fn a_pod_has_errors_and_no_congestion_of_its_own() {
        let pod = PodInfo { namespace: "train".into(), name: "a".into(), uid: None }.into();
        let device = "mlx5_0".to_owned();
        let traffic = PodTraffic {
            pod,
            device,
            port: 1,
            attribution: Attribution::SoleUser,
            counter_values: counter_values(),
        };
        let totals = traffic.totals();
        assert_eq!((totals.errors.len(), totals.transmit_bytes), (1, Some(20)));
        assert!(totals.congestion.is_empty() && totals.priorities.is_empty(), "{totals:?}");
    }
}
