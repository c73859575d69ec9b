//! Names and meanings of the counters of every driver.
//!
//! Unknown names are accepted: drivers rename counters between kernels, and some firmware defines names at run time. A
//! known name has a help text, and may contribute to the families that are common to all drivers (`rdma_errors_total`,
//! bytes, packets, congestion).

mod common_metric;
mod hardware;
mod link;
mod metric_descriptor;
mod standard;

use std::{collections::HashMap, sync::Arc};

pub(crate) use self::{
    common_metric::{CommonMetric, Direction},
    metric_descriptor::{CounterSource, MetricDescriptor},
};

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
