//! What is stale on a node, and why.

use std::path::Path;

use journal::JournalStatus;
use netns::{LiveNetns, NetnsLiveness};
use state::{
    claim::{ClaimKind, DeviceClaim},
    journals::{self, JournalFile},
    orphans::{self, LivenessEvidence, Orphan},
};

use crate::{
    Error, GcNode,
    finding::{FindingKind, FindingState, RevertTarget, StaleFinding},
};

const NO_JOURNAL: &str = "no journal tells of its attachment";

/// What is judged by. Who is dead by it stays so, however long ago it was looked.
pub(crate) struct GcEvidence<'a> {
    pub(crate) living: LiveNetns,
    pub(crate) witnesses: LivenessEvidence<'a>,
}

impl<'a> GcEvidence<'a> {
    pub(crate) fn scan(node: &'a GcNode) -> Result<Self, Error> {
        Ok(Self { living: LiveNetns::scan(&node.root)?, witnesses: LivenessEvidence::look(&node.state)? })
    }
}

/// Everything that is stale, at work, or only to be told of.
pub(crate) fn find(node: &GcNode, evidence: &GcEvidence<'_>) -> Result<Vec<StaleFinding>, Error> {
    let living = &evidence.living;
    let mut found = Vec::new();
    for named in journals::list(&node.state)?.into_iter().filter(|named| !named.set_aside) {
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
                StaleFinding::orphan(FindingState::Stale, derived, "it is of another boot".into())
            }
            Orphan::Note(..) => StaleFinding::orphan(FindingState::Stale, derived, NO_JOURNAL.into()),
            derived => claimed(derived, evidence),
        });
    }
    let unreadable = orphans::unreadable(&node.state)?;
    found.extend(unreadable.iter().map(|path| unreadable_file(path)));
    found.sort_by_cached_key(|finding| (finding.what, finding.key()));
    Ok(found)
}

/// What a journal says of its attachment; `None` if all is well, or the journal has just gone.
pub(crate) fn journal(named: JournalFile, living: &LiveNetns) -> Option<StaleFinding> {
    let of = |verdict, evidence: String, network: &str| {
        let object = format!("{} of network {network}", named.plugin);
        StaleFinding::new(verdict, FindingKind::Journal, Some(&named.attachment), object, evidence)
    };
    let record = match JournalStatus::read_status(&named.path) {
        Ok(record) => record?,
        Err(error) => {
            let evidence =
                format!("it cannot be understood ({error}); a DEL of the attachment sets it aside");
            return Some(of(FindingState::Kept, evidence, "?"));
        }
    };
    let (verdict, evidence) = judge(&record, living)?;
    let finding = of(verdict, evidence, &record.head.network);
    Some(finding.with(RevertTarget::Journal { inode: record.inode, named }))
}

/// What is to become of an attachment; `None` if all is well.
fn judge(record: &JournalStatus, living: &LiveNetns) -> Option<(FindingState, String)> {
    let (verdict, evidence) = if journal::boot_id().is_ok_and(|now| now != record.head.boot_id) {
        (FindingState::Stale, "it was written before the last boot".to_owned())
    } else {
        // Without a known namespace nobody can say that it is dead.
        let life =
            record.head.netns.map_or(NetnsLiveness::Named, |id| living.liveness(&record.head.netns_path, id));
        judge_liveness(life, record.complete)?
    };
    if record.at_work {
        return Some((FindingState::InProgress, "a call is at work on it".to_owned()));
    }
    Some((verdict, evidence))
}

fn judge_liveness(life: NetnsLiveness, complete: bool) -> Option<(FindingState, String)> {
    let killed = "the ADD that wrote it has died before it was completed";
    match (life, complete) {
        (NetnsLiveness::Named, true) => None,
        (NetnsLiveness::Dead(why), true) => Some((FindingState::Stale, why)),
        (NetnsLiveness::Named | NetnsLiveness::Dead(_), false) => {
            Some((FindingState::Stale, killed.to_owned()))
        }
        (NetnsLiveness::Held(how), true) => Some((FindingState::Kept, how)),
        // A DEL would not find what it must take back.
        (NetnsLiveness::Held(how), false) => Some((FindingState::Kept, format!("{killed}; {how}"))),
    }
}

/// A claim of a device without a journal.
pub(crate) fn device(claim: DeviceClaim, living: &LiveNetns) -> StaleFinding {
    match claim.reason_dead(Some(living)) {
        Some(death) => StaleFinding::orphan(
            FindingState::Stale,
            Orphan::Device(claim),
            format!("{NO_JOURNAL}, and {death}"),
        ),
        None => {
            let evidence = format!("{NO_JOURNAL}, but its namespace lives");
            StaleFinding::orphan(FindingState::Kept, Orphan::Device(claim), evidence)
        }
    }
}

/// An address or an entry without a journal: stale, unless something says that its owner may live.
pub(crate) fn claimed(orphan: Orphan, evidence: &GcEvidence<'_>) -> StaleFinding {
    let witness = orphan.owner().and_then(|owner| evidence.witnesses.of(owner, Some(&evidence.living)));
    match witness {
        Some(why) => StaleFinding::orphan(FindingState::Kept, orphan, format!("{NO_JOURNAL}, but {why}")),
        None => StaleFinding::orphan(FindingState::Stale, orphan, NO_JOURNAL.into()),
    }
}

fn unreadable_file(path: &Path) -> StaleFinding {
    let evidence = "it could not be understood; what its attachment has is kept because of it: \
                    delete it when nothing of the attachment is left";
    StaleFinding::new(
        FindingState::Kept,
        FindingKind::File,
        None,
        path.display().to_string(),
        evidence.into(),
    )
}
