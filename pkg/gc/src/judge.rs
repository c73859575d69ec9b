//! Determines what is stale on a node, and why.

use std::path::Path;

use journal::JournalStatus;
use netns::{LiveNetns, NetnsLiveness};
use state::{
    claim::{ClaimKind, DeviceClaim},
    journals::{self, JournalFile},
    orphans::{self, Orphan},
};

use crate::{
    error::Error,
    evidence::GcEvidence,
    find_plugin::FindPlugin,
    finding::{FindingKind, FindingState, RevertTarget, StaleFinding},
    gc_node::GcNode,
    masters,
};

const NO_JOURNAL: &str = "its attachment has no journal";

/// Returns everything that is stale, in progress, or only listed.
pub(crate) fn find(
    node: &GcNode,
    plugin: FindPlugin,
    evidence: &GcEvidence<'_>,
) -> Result<Vec<StaleFinding>, Error> {
    let living = &evidence.living;
    let mut found = Vec::new();
    for named in journals::list(&node.state)?.into_iter().filter(|named| !named.is_quarantined) {
        found.extend(journal(named, living));
    }
    for part in [ClaimKind::Rdma, ClaimKind::Vf] {
        let claims = orphans::devices(&node.state, part)?;
        found.extend(claims.into_iter().map(|claim| device(claim, living)));
    }
    for (address, owner) in orphans::addresses(&node.state)? {
        found.push(claimed(Orphan::Address(address, owner), evidence));
    }
    for derived in orphans::orphaned_files(&node.state)? {
        found.push(match derived {
            Orphan::Store(_) => {
                StaleFinding::orphan(FindingState::Stale, derived, "it was written in another boot".into())
            }
            Orphan::Note(..) => StaleFinding::orphan(FindingState::Stale, derived, NO_JOURNAL.into()),
            derived => claimed(derived, evidence),
        });
    }
    found.extend(masters::find(node, plugin, evidence));
    let unreadable = orphans::unreadable(&node.state)?;
    found.extend(unreadable.iter().map(|path| unreadable_file(path)));
    found.sort_by_cached_key(|finding| (finding.what, finding.key()));
    Ok(found)
}

/// Judges an attachment by its journal; `None` if it is not stale, or if the journal was removed in the meantime.
pub(crate) fn journal(named: JournalFile, living: &LiveNetns) -> Option<StaleFinding> {
    let of = |verdict, evidence: String, network: &str| {
        let object = format!("{} of network {network}", named.plugin);
        StaleFinding::new(verdict, FindingKind::Journal, Some(&named.attachment), object, evidence)
    };
    let record = match JournalStatus::read_status(&named.path) {
        Ok(record) => record?,
        Err(error) => {
            let evidence = format!("it cannot be parsed ({error}); a DEL of the attachment quarantines it");
            return Some(of(FindingState::Kept, evidence, "?"));
        }
    };
    let (verdict, evidence) = judge(&record, living)?;
    let finding = of(verdict, evidence, &record.head.network);
    Some(finding.with(RevertTarget::Journal { inode: record.inode, named }))
}

/// The verdict on an attachment and its evidence; `None` if it is not stale.
fn judge(record: &JournalStatus, living: &LiveNetns) -> Option<(FindingState, String)> {
    let life = record.head.pod().liveness_among(Ok(living));
    let (verdict, evidence) = judge_liveness(life, record.complete)?;
    if record.at_work {
        return Some((FindingState::InProgress, "an operation is in progress on it".to_owned()));
    }
    Some((verdict, evidence))
}

fn judge_liveness(life: NetnsLiveness, complete: bool) -> Option<(FindingState, String)> {
    let killed = "the ADD that wrote it was killed before it completed";
    match (life, complete) {
        (NetnsLiveness::Named, true) => None,
        (NetnsLiveness::Dead(why), true) => Some((FindingState::Stale, why)),
        (NetnsLiveness::Named | NetnsLiveness::Dead(_), false) => {
            Some((FindingState::Stale, killed.to_owned()))
        }
        (NetnsLiveness::Held(how), true) => Some((FindingState::Kept, how)),
        // A DEL would not find what it must revert.
        (NetnsLiveness::Held(how), false) => Some((FindingState::Kept, format!("{killed}; {how}"))),
    }
}

/// Judges a claim of a device whose owner has no journal.
pub(crate) fn device(claim: DeviceClaim, living: &LiveNetns) -> StaleFinding {
    match claim.reason_dead(Ok(living)) {
        Some(death) => StaleFinding::orphan(
            FindingState::Stale,
            Orphan::Device(claim),
            format!("{NO_JOURNAL}, and {death}"),
        ),
        None => {
            let evidence = format!("{NO_JOURNAL}, but its network namespace exists");
            StaleFinding::orphan(FindingState::Kept, Orphan::Device(claim), evidence)
        }
    }
}

/// Judges an address or an entry without a journal: stale unless there is evidence that its owner is running.
pub(crate) fn claimed(orphan: Orphan, evidence: &GcEvidence<'_>) -> StaleFinding {
    let witness = orphan.owner().and_then(|owner| evidence.witnesses.of(owner, Ok(&evidence.living)));
    match witness {
        Some(why) => StaleFinding::orphan(FindingState::Kept, orphan, format!("{NO_JOURNAL}, but {why}")),
        None => StaleFinding::orphan(FindingState::Stale, orphan, NO_JOURNAL.into()),
    }
}

fn unreadable_file(path: &Path) -> StaleFinding {
    let evidence = "it cannot be parsed, so the resources of its attachment are kept: delete the file once the attachment has \
                    no resources left";
    StaleFinding::new(
        FindingState::Kept,
        FindingKind::File,
        None,
        path.display().to_string(),
        evidence.into(),
    )
}

#[cfg(test)]
mod tests {
    use journal::JournalHeader;

    use super::*;
    use crate::evidence::fixture::empty_node;

    fn status(boot_id: &str, complete: bool, at_work: bool) -> JournalStatus {
        let head = JournalHeader {
            version: JournalHeader::VERSION,
            plugin: "macvlan".into(),
            attachment: "c0ffee@net1".parse().unwrap(),
            network: "rail0".into(),
            netns_path: "/run/netns/pod".into(),
            netns: None,
            boot_id: boot_id.into(),
        };
        JournalStatus { head, complete, at_work, inode: 1 }
    }

    #[test]
    fn a_journal_is_stale_only_with_evidence_and_while_nothing_works_on_it() {
        let (root, now) = (empty_node().0, journal::boot_id().unwrap());
        let living = LiveNetns::scan(root.path()).unwrap();
        let verdict = |status| judge(&status, &living).map(|(verdict, _)| verdict);
        // Without a recorded namespace, that of a complete attachment cannot be shown to be dead.
        assert_eq!(verdict(status(now, true, false)), None);
        assert_eq!(verdict(status(now, false, false)), Some(FindingState::Stale));
        assert_eq!(verdict(status("another", true, false)), Some(FindingState::Stale));
        assert_eq!(verdict(status("another", true, true)), Some(FindingState::InProgress));
        assert_eq!(verdict(status(now, false, true)), Some(FindingState::InProgress));
    }

    #[test]
    fn a_namespace_that_something_holds_keeps_its_attachment() {
        let verdict = |life, complete| judge_liveness(life, complete).map(|(verdict, _)| verdict);
        for (life, complete, incomplete) in [
            (NetnsLiveness::Named, None, FindingState::Stale),
            (NetnsLiveness::Dead("gone".into()), Some(FindingState::Stale), FindingState::Stale),
            (NetnsLiveness::Held("pid 7".into()), Some(FindingState::Kept), FindingState::Kept),
        ] {
            assert_eq!(verdict(life.clone(), true), complete, "{life:?}");
            assert_eq!(verdict(life.clone(), false), Some(incomplete), "{life:?}");
        }
    }
}
