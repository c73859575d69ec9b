//! Names and meanings of the counters of every driver.
//!
//! Unknown names are accepted: drivers rename counters between kernels, and some firmware defines names at run time. A
//! known name has a help text, and may contribute to the families that are common to all drivers (`rdma_errors_total`,
//! bytes, packets, congestion).

mod hardware;
mod link;
mod standard;

use std::{collections::HashMap, sync::Arc};

use exposition::metric_name;

/// The source of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CounterSource {
    /// The `hw_counters` of a port or a device.
    Hardware,
    /// The `counters` of a port, as defined by InfiniBand performance management (PMA).
    Standard,
    /// The driver statistics of a port's link (`ethtool -S`).
    Link,
}

/// How a counter is exposed to Prometheus.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetricDescriptor {
    /// The family named after the driver's counter, such as `rdma_out_of_sequence_total`; `None` if there is none.
    pub(crate) family: Option<String>,
    /// The corresponding family for pods, such as `rdma_pod_out_of_sequence_total`.
    pub(crate) pod_family: Option<String>,
    pub(crate) help: String,
    pub(crate) is_gauge: bool,
    /// Whether the hardware counter has 32 bits and wraps around.
    pub(crate) wraps: bool,
    /// The priority (`0` to `7`) that it counts, if any.
    pub(crate) priority: Option<String>,
    /// The family common to all drivers that it contributes to.
    pub(crate) role: Option<CommonMetric>,
    /// Among several sources of one role, those with the lowest rank are added up and the others are ignored.
    pub(crate) rank: u8,
    /// The factor that a value is multiplied with for its role.
    pub(crate) scale: u64,
}

/// A quantity in a family that is common to all drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum CommonMetric {
    Bytes(Direction),
    Packets(Direction),
    Error(&'static str),
    Congestion(&'static str),
    PauseFrames(Direction),
    PauseMicroseconds(Direction),
    Discards(Direction),
}

/// The direction of traffic, from the point of view of the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Receive, Self::Transmit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
        }
    }
}

impl MetricDescriptor {
    fn counter(name: &str, help: String) -> Self {
        Self {
            family: Some(format!("rdma_{name}_total")),
            pod_family: None,
            help,
            is_gauge: false,
            wraps: false,
            priority: None,
            role: None,
            rank: 0,
            scale: 1,
        }
    }
}

/// The metrics that were looked up so far. Names repeat with every device and reading, so each metric is created once.
#[derive(Debug, Default)]
pub(crate) struct MetricCatalogue {
    met: HashMap<CounterSource, HashMap<String, Option<Arc<MetricDescriptor>>>>,
}

impl MetricCatalogue {
    /// Returns the metric of a counter; `None` if it is not exposed, like most of a link's hundreds of statistics.
    pub(crate) fn metric(&mut self, source: CounterSource, name: &str) -> Option<Arc<MetricDescriptor>> {
        let met = self.met.entry(source).or_default();
        if let Some(metric) = met.get(name) {
            return metric.clone();
        }
        let metric = match source {
            CounterSource::Hardware => hardware::metric(name),
            CounterSource::Standard => standard::metric(name),
            CounterSource::Link => link::metric(name),
        };
        let metric = metric.map(Arc::new);
        met.insert(name.to_owned(), metric.clone());
        metric
    }
}

/// Converts a driver's counter name with [`metric_name`]; `None` if the result is empty.
fn legal(name: &str) -> Option<String> {
    Some(metric_name(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_created_once() {
        let mut catalogue = MetricCatalogue::default();
        let first = catalogue.metric(CounterSource::Hardware, "out_of_sequence").unwrap();
        assert!(Arc::ptr_eq(&first, &catalogue.metric(CounterSource::Hardware, "out_of_sequence").unwrap()));
        assert_eq!(catalogue.metric(CounterSource::Link, "out_of_sequence"), None);
        assert_eq!(catalogue.metric(CounterSource::Hardware, "?"), None);
    }
}
