//! Families by their type.

use exposition::{Exposition, MetricFamily, MetricType};

/// Returns a family of type gauge.
pub(super) fn gauge<'a>(
    families: &'a mut Exposition,
    name: &str,
    help: &'static str,
) -> &'a mut MetricFamily {
    families.family(name, MetricType::Gauge, help)
}

/// Returns a family of type counter.
pub(super) fn counter<'a>(
    families: &'a mut Exposition,
    name: &str,
    help: &'static str,
) -> &'a mut MetricFamily {
    families.family(name, MetricType::Counter, help)
}
