//! How a counter is exposed.

use exposition::metric_name;

use super::CommonMetric;

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

impl MetricDescriptor {
    pub(super) fn counter(name: &str, help: String) -> Self {
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

/// Converts a driver's counter name with [`metric_name`]; `None` if the result is empty.
pub(super) fn legal(name: &str) -> Option<String> {
    Some(metric_name(name)).filter(|name| !name.is_empty())
}
