//! The status of the collectors.

use exporter::NodeSnapshot;
use serde::Serialize;

use super::unix_time::seconds;

/// The status of one collector.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CollectorView {
    /// As in the label `collector` of the metrics.
    name: &'static str,
    /// Whether it could read everything.
    succeeded: bool,
    /// The duration in seconds, added up over all devices.
    seconds: f64,
    /// When it last succeeded, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<f64>,
    /// The first collect errors. Those that do not count as failures come last.
    #[serde(rename = "troubles")]
    errors: Vec<CollectErrorView>,
    /// The total number of collect errors.
    #[serde(rename = "troubleCount")]
    error_count: usize,
}

/// A collect error: a value that could not be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CollectErrorView {
    /// As in the label `reason` of the metrics.
    reason: &'static str,
    /// Whether it counts as a failure. A counter that the driver does not have does not.
    is_failure: bool,
    /// The error message.
    text: String,
}

/// Maximum number of messages per collector: if firmware hangs, hundreds of devices may have the same error.
const MAX_ERROR_TEXTS: usize = 10;

/// Returns the collectors that ran.
pub(super) fn all(report: &NodeSnapshot) -> Vec<CollectorView> {
    let collectors = report.outcomes.iter().map(|(collector, outcome)| {
        let mut errors: Vec<_> = report.errors.iter().filter(|error| error.collector == *collector).collect();
        errors.sort_by_key(|error| !error.reason.counts_as_failure());
        CollectorView {
            name: collector.name(),
            succeeded: outcome.succeeded,
            seconds: outcome.spent.as_secs_f64(),
            last_success: outcome.last_success.map(seconds),
            error_count: errors.len(),
            errors: errors.into_iter().take(MAX_ERROR_TEXTS).map(CollectErrorView::of).collect(),
        }
    });
    collectors.collect()
}

impl CollectErrorView {
    fn of(error: &exporter::CollectError) -> Self {
        Self {
            reason: error.reason.name(),
            is_failure: error.reason.counts_as_failure(),
            text: error.what.clone(),
        }
    }
}
