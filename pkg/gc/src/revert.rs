//! Reverting what is stale: attachments by their journals, the rest by what the plugins' GC does.

use std::time::{Duration, Instant};

use addr::Attachment;
use state::{journals::Named, orphans::Orphan};

use crate::{
    Error, FindPlugin, Node,
    finding::{Finding, Thing, Verdict},
    judge::{self, Evidence},
};

/// How long a plugin may have the lock of the claims of devices. It normally does for microseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// What comes first: an RDMA device leaves before its VF does, an address is free when no link has it any more.
pub(crate) fn order(finding: &Finding) -> (u8, Option<Attachment>, u8) {
    match &finding.thing {
        Some(Thing::Journal { named, .. }) => {
            let rank = match named.plugin.as_str() {
                "rdma" => 0,
                "silkrail-ipam" => 2,
                _ => 1,
            };
            (0, Some(named.attachment.clone()), rank)
        }
        _ => (1, None, 0), // in the order in which they were found
    }
}

/// Reverts something if it is still stale: it may have taken a while to come to this one.
pub(crate) fn revert(
    node: &Node,
    plugin: FindPlugin,
    finding: &Finding,
    evidence: &Evidence<'_>,
) -> Result<(), Error> {
    let still = |now: &Finding| now.verdict == Verdict::Stale && now.key() == finding.key();
    match &finding.thing {
        Some(Thing::Journal { named, inode }) => {
            match judge::journal(named.clone(), &evidence.living).filter(still) {
                Some(_) => delete(node, plugin, named, *inode),
                None => Ok(()),
            }
        }
        Some(Thing::Orphan(orphan)) if is_still_stale(orphan, evidence) => {
            orphan.release(&node.state, Instant::now() + LOCK_TIMEOUT)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_still_stale(orphan: &Orphan, evidence: &Evidence<'_>) -> bool {
    let now = match orphan {
        Orphan::Device(claim) => judge::device(claim.clone(), &evidence.living),
        Orphan::Address(..) | Orphan::Entry(..) => judge::claimed(orphan.clone(), evidence),
        Orphan::Note(..) | Orphan::Store(_) => return true,
    };
    now.verdict == Verdict::Stale
}

/// What the plugin's DEL would do, for the journal has all that it needs.
fn delete(node: &Node, plugin: FindPlugin, named: &Named, inode: u64) -> Result<(), Error> {
    let name = &named.plugin;
    let plugin = plugin(name).ok_or_else(|| Error::UnknownPlugin(name.clone()))?;
    Ok(plugin.take_back(node.state.clone(), vec![node.cni_path.clone()], &named.attachment, inode)?)
}
