//! Taking back what is stale: attachments by their journals, the rest by what the plugins' GC does.

use addr::Attachment;
use plugin::{journals::Named, lost::Lost};

use super::{
    Node,
    finding::{Finding, Thing, Verdict},
    look::{self, Evidence},
};
use crate::exit::Failure;

/// What comes first: an RDMA device leaves before its VF does, an address is free when no link has it any more.
pub(super) fn order(finding: &Finding) -> (u8, Option<Attachment>, u8) {
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

/// Takes something back if it is still stale: it may have taken a while to come to this one.
pub(super) fn take_back(node: &Node, finding: &Finding, evidence: &Evidence<'_>) -> Result<(), Failure> {
    let still = |now: &Finding| now.verdict == Verdict::Stale && now.key() == finding.key();
    match &finding.thing {
        Some(Thing::Journal { named, inode }) => {
            match look::journal(named.clone(), &evidence.living).filter(still) {
                Some(_) => delete(node, named, *inode),
                None => Ok(()),
            }
        }
        Some(Thing::Lost(lost)) if is_still_lost(lost, evidence) => {
            lost.take_back(&node.state)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_still_lost(lost: &Lost, evidence: &Evidence<'_>) -> bool {
    let now = match lost {
        Lost::Device(claim) => look::device(claim.clone(), &evidence.living),
        Lost::Address(..) | Lost::Entry(..) => look::claimed(lost.clone(), evidence),
        Lost::Note(..) | Lost::Store(_) => return true,
    };
    now.verdict == Verdict::Stale
}

/// What the plugin's DEL would do, for the journal has all that it needs.
fn delete(node: &Node, named: &Named, inode: u64) -> Result<(), Failure> {
    let name = &named.plugin;
    let plugin = silkrail_cni::find(name).ok_or_else(|| Failure::UnknownPlugin(name.clone()))?;
    Ok(plugin.take_back(node.state.clone(), vec![node.cni_path.clone()], &named.attachment, inode)?)
}
