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

#[cfg(test)]
mod tests {
    use std::fs;

    use journal::JournalHeader;

    use super::*;
    use crate::{evidence::fixture::empty_node, finding::FindingKind};

    /// A journal of a killed ADD, whose plugin this version does not have.
    #[test]
    fn only_the_journal_that_was_found_is_reverted() {
        let (root, node) = empty_node();
        let attachment: Attachment = "c0ffee@net1".parse().unwrap();
        let head = JournalHeader {
            version: JournalHeader::VERSION,
            plugin: "wormhole".into(),
            attachment: attachment.clone(),
            network: "rail0".into(),
            netns_path: "/run/netns/pod".into(),
            netns: None,
            boot_id: journal::boot_id().unwrap().into(),
        };
        let path = root.path().join("c0ffee@net1.wormhole.journal");
        fs::write(&path, serde_json::to_string(&head).unwrap() + "\n").unwrap();
        let named =
            JournalFile { path: path.clone(), attachment, plugin: head.plugin, is_quarantined: false };
        let evidence = GcEvidence::scan(&node).unwrap();
        let mut finding = judge::journal(named, &evidence.living).unwrap();
        assert_eq!(finding.verdict, FindingState::Stale, "{finding:?}");
        let revert = |finding: &StaleFinding| revert(&node, |_| None, finding, &evidence);
        assert!(matches!(revert(&finding), Err(Error::UnknownPlugin(name)) if name == "wormhole"));
        let held = fs::File::open(&path).unwrap();
        held.lock().unwrap();
        revert(&finding).unwrap(); // a call works on it by now
        held.unlock().unwrap();
        if let Some(RevertTarget::Journal { inode, .. }) = &mut finding.thing {
            *inode += 1;
        }
        revert(&finding).unwrap(); // the file has another inode: it is of a later ADD
        fs::remove_file(&path).unwrap();
        revert(&finding).unwrap();
    }

    #[test]
    fn an_orphan_whose_owner_may_be_running_by_now_is_kept() {
        let (_root, node) = empty_node();
        let pods = node.state.podmap().dir().to_owned();
        fs::create_dir_all(&pods).unwrap();
        let path = pods.join("c0ffee@net1.json");
        fs::write(&path, "{").unwrap();
        let evidence = GcEvidence::scan(&node).unwrap();
        let owner = "c0ffee@net1".parse().unwrap();
        let orphan = Orphan::Entry(path.clone(), owner);
        let finding = StaleFinding::orphan(FindingState::Stale, orphan, String::new());
        revert(&node, |_| None, &finding, &evidence).unwrap();
        assert!(path.exists());
        let note = node.state.notes().join("91ab@net1");
        fs::create_dir_all(node.state.notes()).unwrap();
        std::os::unix::fs::symlink("gone@net1", &note).unwrap();
        let orphan = Orphan::Note(note.clone(), "gone@net1".parse().unwrap());
        let finding = StaleFinding::orphan(FindingState::Stale, orphan, String::new());
        revert(&node, |_| None, &finding, &evidence).unwrap();
        assert!(note.symlink_metadata().is_err());
    }

    #[test]
    fn plugins_of_an_attachment_are_reverted_in_the_order_of_a_del() {
        let journal = |plugin: &str, attachment: &str| {
            let named = JournalFile {
                path: "/j".into(),
                attachment: attachment.parse().unwrap(),
                plugin: plugin.into(),
                is_quarantined: false,
            };
            let finding = |kind| {
                StaleFinding::new(
                    FindingState::Stale,
                    kind,
                    Some(&named.attachment),
                    plugin.into(),
                    String::new(),
                )
            };
            finding(FindingKind::Journal).with(RevertTarget::Journal { named: named.clone(), inode: 1 })
        };
        let note = Orphan::Note("/note".into(), "a@net1".parse().unwrap());
        let mut found = [
            StaleFinding::orphan(FindingState::Stale, note, String::new()),
            journal("ifacer", "a@net1"),
            journal("silkrail-ipam", "a@net1"),
            journal("sriov", "b@net1"),
            journal("sriov", "a@net1"),
            journal("rdma", "a@net1"),
        ];
        found.sort_by_cached_key(clean_up_order);
        let order: Vec<_> = found.iter().map(|finding| finding.object.as_str()).collect();
        assert_eq!(order, ["rdma", "sriov", "silkrail-ipam", "ifacer", "sriov", "note"]);
    }
}
