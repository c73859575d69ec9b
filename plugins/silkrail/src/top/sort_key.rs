//! The order of the rows.

use std::cmp::Ordering;

use super::{
    rates::Rates,
    usage::{DeviceUsage, NodeUsage, PodUsage},
};

/// What rows are sorted by, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SortKey {
    /// Bytes received and sent
    Bytes,
    /// Packets received and sent
    Packets,
    /// Errors
    Errors,
    /// Congestion notification packets, then pause frames
    Congestion,
    /// Queue pairs
    QueuePairs,
    /// Names
    Name,
}

impl SortKey {
    /// Returns the order that a key of the keyboard selects.
    pub(super) fn of_key(key: u8) -> Option<Self> {
        match key {
            b'b' => Some(Self::Bytes),
            b'p' => Some(Self::Packets),
            b'e' => Some(Self::Errors),
            b'c' => Some(Self::Congestion),
            b'u' => Some(Self::QueuePairs),
            b'n' => Some(Self::Name),
            _ => None,
        }
    }

    /// The name, as `--sort` takes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Errors => "errors",
            Self::Congestion => "congestion",
            Self::QueuePairs => "queue-pairs",
            Self::Name => "name",
        }
    }

    /// Sorts devices and pods. Those with equal values, and those whose values are not known, are sorted by name.
    pub(super) fn sort(self, usage: &mut NodeUsage) {
        let device = |device: &DeviceUsage| self.value(&device.per_second, device.queue_pairs);
        usage.devices.sort_by(|a, b| order(device(a), device(b)).then_with(|| a.name.cmp(&b.name)));
        let pod = |pod: &PodUsage| self.value(&pod.per_second, pod.queue_pairs);
        let name = |pod: &PodUsage| (pod.label.namespace.clone(), pod.label.name.clone());
        usage.pods.sort_by(|a, b| order(pod(a), pod(b)).then_with(|| name(a).cmp(&name(b))));
    }

    #[expect(clippy::cast_precision_loss, reason = "the number of queue pairs is below 2^53")]
    fn value(self, rates: &Rates, queue_pairs: Option<u64>) -> [Option<f64>; 2] {
        match self {
            Self::Bytes => [rates.all_bytes(), None],
            Self::Packets => [rates.all_packets(), None],
            Self::Errors => [rates.all_errors(), None],
            Self::Congestion => [rates.notifications(), rates.all_pause_frames()],
            Self::QueuePairs => [queue_pairs.map(|count| count as f64), None],
            Self::Name => [None, None],
        }
    }
}

/// The highest first, what is not known last.
fn order(a: [Option<f64>; 2], b: [Option<f64>; 2]) -> Ordering {
    b.partial_cmp(&a).unwrap_or(Ordering::Equal)
}
