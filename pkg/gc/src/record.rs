//! The record of the runs, for metrics.

use gc_record::{CountsByKind, GcRecord};

use crate::{FindingKind, FindingState, GcNode, StaleFinding, error::Error};

/// Adds the outcome of a [`clean_up`](crate::clean_up) to the record of the node. A node without state directory has none.
///
/// # Errors
/// If the record cannot be written.
pub fn record(node: &GcNode, findings: &[StaleFinding]) -> Result<(), Error> {
    if !node.state.root().is_dir() {
        return Ok(());
    }
    let (reverted, left) = (counts(findings, FindingState::Reverted), counts(findings, FindingState::Left));
    Ok(GcRecord::add_run(node.state.root(), reverted, left)?)
}

/// Counts the findings of a state. All kinds are included, so that a counter exists before its first increment.
fn counts(findings: &[StaleFinding], state: FindingState) -> CountsByKind {
    let mut counts: CountsByKind = FindingKind::REVERTED.map(|kind| (kind.key().to_owned(), 0)).into();
    for finding in findings.iter().filter(|finding| finding.verdict == state) {
        *counts.entry(finding.what.key().to_owned()).or_default() += 1;
    }
    counts
}
