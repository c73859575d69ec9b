//! The log of comparisons with the cluster: what stays as it was is logged once.

use std::collections::BTreeSet;

use block_leases::SyncReport;
use ipam::IpBlock;

/// The blocks that were logged.
#[derive(Debug, Default)]
pub(crate) struct SyncLog {
    lost: BTreeSet<IpBlock>,
    draining: BTreeSet<IpBlock>,
}

impl SyncLog {
    /// Logs what is new in a report.
    pub(crate) fn add(&mut self, report: &SyncReport) {
        for lost in report.lost.iter().filter(|lost| !self.lost.contains(&lost.block)) {
            let owner = lost.owner.as_ref().map_or_else(|| "nobody".to_owned(), |owner| owner.node.clone());
            tracing::error!(
                "IPBlock {}: this node used it, but it belongs to {owner}; {} addresses are in use here: {:?}",
                lost.block,
                lost.in_use.len(),
                lost.in_use
            );
        }
        for (block, in_use) in report.draining.iter().filter(|(block, _)| !self.draining.contains(block)) {
            tracing::info!(
                "IPBlock {block} is being deleted, which waits for {} addresses in use",
                in_use.len()
            );
        }
        self.lost = report.lost.iter().map(|lost| lost.block).collect();
        self.draining = report.draining.iter().map(|(block, _)| *block).collect();
    }
}
