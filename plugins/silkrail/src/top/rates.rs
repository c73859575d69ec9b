//! Rates: what counters have grown by between two readings, per second.

use std::collections::BTreeMap;

use exporter::CommonTotals;
use serde::Serialize;

/// Events per second. A value that nothing counts is `None`, not 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receive_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transmit_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receive_packets: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transmit_packets: Option<f64>,
    /// By kind, as in the label `error` of the metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) errors: BTreeMap<&'static str, f64>,
    /// By kind, as in the label `event` of the metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) congestion: BTreeMap<&'static str, f64>,
    /// PFC pause frames of all priorities that the network has sent to this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receive_pause_frames: Option<f64>,
    /// PFC pause frames of all priorities that this port has sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transmit_pause_frames: Option<f64>,
    /// Packets dropped because no buffer was free, in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) discards: Option<f64>,
}

impl Rates {
    /// Returns the rates between two readings of the same counters.
    pub(super) fn between(before: &CommonTotals, now: &CommonTotals, seconds: f64) -> Self {
        let rate = |before: Option<u64>, now: Option<u64>| Some(increase(before?, now?) / seconds);
        let kinds = |before: &BTreeMap<&'static str, u64>, now: &BTreeMap<&'static str, u64>| {
            let both = now
                .iter()
                .filter_map(|(kind, now)| Some((*kind, rate(before.get(kind).copied(), Some(*now))?)));
            both.collect()
        };
        let mut rates = Self {
            receive_bytes: rate(before.receive_bytes, now.receive_bytes),
            transmit_bytes: rate(before.transmit_bytes, now.transmit_bytes),
            receive_packets: rate(before.receive_packets, now.receive_packets),
            transmit_packets: rate(before.transmit_packets, now.transmit_packets),
            errors: kinds(&before.errors, &now.errors),
            congestion: kinds(&before.congestion, &now.congestion),
            ..Self::default()
        };
        for (key, now) in &now.priorities {
            let Some(before) = before.priorities.get(key) else { continue };
            let frames = rate(before.pause_frames, now.pause_frames);
            let direction = match key.0 {
                "receive" => &mut rates.receive_pause_frames,
                _ => &mut rates.transmit_pause_frames,
            };
            *direction = sum([*direction, frames]);
            rates.discards = sum([rates.discards, rate(before.discards, now.discards)]);
        }
        rates
    }

    /// Adds the rates of another port, or of another attribution.
    pub(super) fn add(&mut self, other: Self) {
        self.receive_bytes = sum([self.receive_bytes, other.receive_bytes]);
        self.transmit_bytes = sum([self.transmit_bytes, other.transmit_bytes]);
        self.receive_packets = sum([self.receive_packets, other.receive_packets]);
        self.transmit_packets = sum([self.transmit_packets, other.transmit_packets]);
        self.receive_pause_frames = sum([self.receive_pause_frames, other.receive_pause_frames]);
        self.transmit_pause_frames = sum([self.transmit_pause_frames, other.transmit_pause_frames]);
        self.discards = sum([self.discards, other.discards]);
        other.errors.into_iter().for_each(|(kind, rate)| *self.errors.entry(kind).or_default() += rate);
        other
            .congestion
            .into_iter()
            .for_each(|(kind, rate)| *self.congestion.entry(kind).or_default() += rate);
    }

    pub(super) fn all_bytes(&self) -> Option<f64> {
        sum([self.receive_bytes, self.transmit_bytes])
    }

    pub(super) fn all_packets(&self) -> Option<f64> {
        sum([self.receive_packets, self.transmit_packets])
    }

    pub(super) fn all_errors(&self) -> Option<f64> {
        sum(self.errors.values().map(|rate| Some(*rate)))
    }

    /// Congestion notification packets (CNP), sent and received.
    pub(super) fn notifications(&self) -> Option<f64> {
        sum(["cnp_sent", "cnp_handled", "cnp_ignored"].map(|kind| self.congestion.get(kind).copied()))
    }

    pub(super) fn all_pause_frames(&self) -> Option<f64> {
        sum([self.receive_pause_frames, self.transmit_pause_frames])
    }
}

/// Adds what is known; `None` if nothing is.
fn sum(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().flatten().reduce(|sum, value| sum + value)
}

/// Returns what a counter has grown by. One that has fallen was reset, and began at 0.
#[expect(clippy::cast_precision_loss, reason = "an error of one part in 10^16")]
fn increase(before: u64, now: u64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64
}

#[cfg(test)]
mod tests {
    use exporter::PriorityTotals;

    use super::*;

    fn totals(bytes: u64, rnr: u64, cnp: [u64; 2], pause: [u64; 2]) -> CommonTotals {
        let priority = |frames, discards| PriorityTotals {
            pause_frames: Some(frames),
            discards: Some(discards),
            ..PriorityTotals::default()
        };
        CommonTotals {
            receive_bytes: Some(bytes),
            transmit_packets: Some(bytes / 1000),
            errors: [("rnr_nak", rnr)].into(),
            congestion: [("cnp_sent", cnp[0]), ("cnp_handled", cnp[1]), ("ecn_marked", 1000 * cnp[0])].into(),
            priorities: [
                (("receive", "3".into()), priority(pause[0], 0)),
                (("receive", "5".into()), priority(2 * pause[0], 1)),
                (("transmit", "3".into()), priority(pause[1], 3)),
            ]
            .into(),
            ..CommonTotals::default()
        }
    }

    #[test]
    fn rates_are_increases_divided_by_the_time_between() {
        let before = totals(1_000_000, 10, [5, 7], [100, 0]);
        let now = totals(6_000_000, 13, [6, 9], [110, 4]);
        let rates = Rates::between(&before, &now, 2.0);
        assert_eq!(rates.receive_bytes, Some(2_500_000.0));
        assert_eq!((rates.transmit_bytes, rates.receive_packets), (None, None));
        assert_eq!(rates.transmit_packets, Some(2500.0));
        assert_eq!(rates.all_errors(), Some(1.5));
        // One more sent, two more handled.
        assert_eq!(rates.notifications(), Some(1.5));
        // 10 on priority 3 and 20 on priority 5.
        assert_eq!((rates.receive_pause_frames, rates.transmit_pause_frames), (Some(15.0), Some(2.0)));
        assert_eq!(rates.discards, Some(0.0));
        assert_eq!((rates.all_bytes(), rates.all_packets()), (Some(2_500_000.0), Some(2500.0)));
    }

    #[test]
    fn a_counter_that_was_reset_began_at_zero() {
        let rates =
            Rates::between(&totals(9_000_000, 10, [9, 9], [9, 9]), &totals(4000, 10, [1, 9], [2, 9]), 0.5);
        assert_eq!(rates.receive_bytes, Some(8000.0));
        assert_eq!(rates.transmit_packets, Some(8.0));
        assert_eq!(rates.all_errors(), Some(0.0));
        assert_eq!(rates.notifications(), Some(2.0));
        assert_eq!(rates.receive_pause_frames, Some(12.0));
    }

    #[test]
    fn a_counter_that_is_new_or_gone_has_no_rate() {
        let (nothing, some) = (CommonTotals::default(), totals(1, 1, [1, 1], [1, 1]));
        assert_eq!(Rates::between(&nothing, &some, 1.0), Rates::default());
        assert_eq!(Rates::between(&some, &nothing, 1.0), Rates::default());
        assert_eq!(Rates::default().all_bytes(), None);
    }

    #[test]
    fn rates_of_ports_are_added() {
        let one = Rates::between(&totals(0, 0, [0, 0], [0, 0]), &totals(1000, 2, [1, 0], [1, 1]), 1.0);
        let mut both = one.clone();
        both.add(one);
        assert_eq!(both.receive_bytes, Some(2000.0));
        assert_eq!((both.all_errors(), both.notifications()), (Some(4.0), Some(2.0)));
        assert_eq!(both.all_pause_frames(), Some(8.0));
        assert_eq!(both.transmit_bytes, None);
    }
}
