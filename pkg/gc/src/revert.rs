//! Reverts what is stale: attachments by their journals, the rest as the plugins' GC does.

use std::time::{Duration, Instant};

use identifiers::Attachment;
use state::{journals::JournalFile, orphans::Orphan};

use crate::{
    error::Error,
    evidence::GcEvidence,
    find_plugin::FindPlugin,
    finding::{FindingState, RevertTarget, StaleFinding},
    gc_node::GcNode,
    judge, masters,
};

/// Timeout for the lock of the device claims, which plugins normally hold for microseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The order of reverts: an RDMA device is returned before its VF, and an address is released after its link is gone.
pub(crate) fn clean_up_order(finding: &StaleFinding) -> (u8, Option<Attachment>, u8) {
    match &finding.thing {
        Some(RevertTarget::Journal { named, .. }) => {
            let rank = match named.plugin.as_str() {
                "rdma" => 0,
                "silkrail-ipam" => 2,
                // Its link is the parent of those of the other plugins.
                "ifacer" => 3,
                _ => 1,
            };
            (0, Some(named.attachment.clone()), rank)
        }
        _ => (1, None, 0), // in the order of the findings
    }
}

/// Reverts a finding if it is still stale: earlier reverts may have taken a while.
pub(crate) fn revert(
    node: &GcNode,
    plugin: FindPlugin,
    finding: &StaleFinding,
    evidence: &GcEvidence<'_>,
) -> Result<(), Error> {
    let still = |now: &StaleFinding| now.verdict == FindingState::Stale && now.key() == finding.key();
    match &finding.thing {
        Some(RevertTarget::Journal { named, inode }) => {
            match judge::journal(named.clone(), &evidence.living).filter(still) {
                Some(_) => delete(node, plugin, named, *inode),
                None => Ok(()),
            }
        }
        Some(RevertTarget::Orphan(orphan)) if is_still_stale(orphan, evidence) => {
            orphan.release(&node.state, Instant::now() + LOCK_TIMEOUT)?;
            Ok(())
        }
        Some(RevertTarget::Master(name)) => match masters::owner(plugin) {
            // It checks again, under the lock of the masters.
            Some(owner) => Ok(owner.end_unused_master(node.state.clone(), name)?),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn is_still_stale(orphan: &Orphan, evidence: &GcEvidence<'_>) -> bool {
    let now = match orphan {
        Orphan::Device(claim) => judge::device(claim.clone(), &evidence.living),
        Orphan::Address(..) | Orphan::Entry(..) => judge::claimed(orphan.clone(), evidence),
        Orphan::Note(..) | Orphan::Store(_) => return true,
    };
    now.verdict == FindingState::Stale
}

/// Does what the plugin's DEL would do: the journal contains all that it needs.
fn delete(node: &GcNode, plugin: FindPlugin, named: &JournalFile, inode: u64) -> Result<(), Error> {
    let name = &named.plugin;
    let plugin = plugin(name).ok_or_else(|| Error::UnknownPlugin(name.clone()))?;
    Ok(plugin.revert_attachment(node.state.clone(), vec![node.cni_path.clone()], &named.attachment, inode)?)
}
