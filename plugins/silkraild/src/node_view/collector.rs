//! How the collectors did their work.

use exporter::NodeSnapshot;
use serde::Serialize;

use super::seconds;

/// One collector.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CollectorView {
    /// As in the label `collector` of the metrics.
    name: &'static str,
    /// Whether it could read everything.
    succeeded: bool,
    /// How long it took, in seconds, added up over all devices.
    seconds: f64,
    /// When it could read everything for the last time, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<f64>,
    /// What it could not read: the first of these, and what is no failure last.
    troubles: Vec<CollectErrorView>,
    /// How many it could not read in all.
    trouble_count: usize,
}

/// Something that could not be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CollectErrorView {
    /// As in the label `reason` of the metrics.
    reason: &'static str,
    /// Whether the collector failed. What a driver does not have is no failure.
    is_failure: bool,
    /// For people.
    text: String,
}

/// Texts of each collector: when firmware hangs, hundreds of devices may say the same.
const MAX_ERROR_TEXTS: usize = 10;

/// Those that ran.
pub(super) fn all(report: &NodeSnapshot) -> Vec<CollectorView> {
    let collectors = report.outcomes.iter().map(|(collector, outcome)| {
        let mut troubles: Vec<_> = report.troubles.iter().filter(|t| t.collector == *collector).collect();
        troubles.sort_by_key(|trouble| !trouble.reason.counts_as_failure());
        CollectorView {
            name: collector.name(),
            succeeded: outcome.succeeded,
            seconds: outcome.spent.as_secs_f64(),
            last_success: outcome.last_success.map(seconds),
            trouble_count: troubles.len(),
            troubles: troubles.into_iter().take(MAX_ERROR_TEXTS).map(CollectErrorView::of).collect(),
        }
    });
    collectors.collect()
}

impl CollectErrorView {
    fn of(trouble: &exporter::CollectError) -> Self {
        Self {
            reason: trouble.reason.name(),
            is_failure: trouble.reason.counts_as_failure(),
            text: trouble.what.clone(),
        }
    }
}
