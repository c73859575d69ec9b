//! The runs of `silkrail gc --yes`.

use exposition::{Exposition, LabelSet};

use super::family_type::{counter, gauge};
use crate::NodeSnapshot;

pub(super) fn write(families: &mut Exposition, report: &NodeSnapshot, node: &LabelSet) {
    let Some(gc) = &report.gc else { return };
    let help = "End of the last run of silkrail gc --yes since the boot.";
    gauge(families, "rdma_gc_last_run_timestamp_seconds", help).add(node.clone(), gc.time);
    let help = "Resources of dead pods that silkrail gc has reverted since the boot.";
    for (kind, count) in &gc.reverted {
        counter(families, "rdma_gc_reverted_total", help).add(node.and("kind", kind), *count);
    }
    let help = "Resources of dead pods that the last run of silkrail gc could not revert.";
    for (kind, count) in &gc.left {
        gauge(families, "rdma_gc_left", help).add(node.and("kind", kind), *count);
    }
}
