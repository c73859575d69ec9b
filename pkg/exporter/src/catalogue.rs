//! What each counter of each driver is called, and what it means.
//!
//! Any name is taken: drivers rename counters between kernels, and some firmware makes names up at run time. A name
//! that is known has a help text and a part in the families that mean the same on every driver (`rdma_errors_total`,
//! bytes, packets, congestion).

mod hardware;
mod link;
mod standard;

use std::{collections::HashMap, sync::Arc};

use exposition::metric_name;

/// Where a counter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CounterSource {
    /// `hw_counters` of a port or a device.
    Hardware,
    /// `counters` of a port: what InfiniBand's performance management defines.
    Standard,
    /// `ethtool -S` of a port's link.
    Link,
}

/// What a counter is in Prometheus.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetricDescriptor {
    /// The family with the driver's own name, if it has one.
    pub(crate) family: Option<String>,
    /// The same of a pod.
    pub(crate) pod_family: Option<String>,
    pub(crate) help: String,
    pub(crate) is_gauge: bool,
    /// A number of 32 bits in the hardware, which begins anew when it is full.
    pub(crate) wraps: bool,
    /// The priority that it is about.
    pub(crate) priority: Option<String>,
    /// Its part in a family that means the same on every driver.
    pub(crate) role: Option<CommonMetric>,
    /// Among several sources of one thing the lowest rank counts; of the same rank, the sum.
    pub(crate) rank: u8,
    /// By what a value is multiplied in its role.
    pub(crate) scale: u64,
}

/// A part in a family that means the same on every driver.
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

/// Which way traffic goes, seen from the port.
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

/// The metrics met so far. Names repeat with every device and every reading, so each is made once.
#[derive(Debug, Default)]
pub(crate) struct MetricCatalogue {
    met: HashMap<CounterSource, HashMap<String, Option<Arc<MetricDescriptor>>>>,
}

impl MetricCatalogue {
    /// What a counter is; `None` if it is not shown: of a link's hundreds of statistics most are not about RDMA.
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

/// The driver's name as a part of a metric's; `None` if nothing of it is left.
fn legal(name: &str) -> Option<String> {
    Some(metric_name(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_made_once() {
        let mut catalogue = MetricCatalogue::default();
        let first = catalogue.metric(CounterSource::Hardware, "out_of_sequence").unwrap();
        assert!(Arc::ptr_eq(&first, &catalogue.metric(CounterSource::Hardware, "out_of_sequence").unwrap()));
        assert_eq!(catalogue.metric(CounterSource::Link, "out_of_sequence"), None);
        assert_eq!(catalogue.metric(CounterSource::Hardware, "?"), None);
    }
}
