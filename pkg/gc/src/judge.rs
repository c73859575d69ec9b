//! What is stale on a node, and why.

use std::path::Path;

use journal::Record;
use netns::{Life, Living};
use state::{
    claim::{Claim, Part},
    journals::{self, Named},
    orphans::{self, Orphan, Witnesses},
};

use crate::{
    Error, Node,
    finding::{Finding, Thing, Verdict, What},
};

const NO_JOURNAL: &str = "no journal tells of its attachment";

/// What is judged by. Who is dead by it stays so, however long ago it was looked.
pub(crate) struct Evidence<'a> {
    pub(crate) living: Living,
    pub(crate) witnesses: Witnesses<'a>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn look(node: &'a Node) -> Result<Self, Error> {
        Ok(Self { living: Living::look(&node.root)?, witnesses: Witnesses::look(&node.state)? })
    }
}

/// Everything that is stale, at work, or only to be told of.
pub(crate) fn find(node: &Node, evidence: &Evidence<'_>) -> Result<Vec<Finding>, Error> {
    let living = &evidence.living;
    let mut found = Vec::new();
    for named in journals::list(&node.state)?.into_iter().filter(|named| !named.set_aside) {
        found.extend(journal(named, living));
    }
    for part in [Part::Rdma, Part::Vf] {
        let claims = orphans::devices(&node.state, part)?;
        found.extend(claims.into_iter().map(|claim| device(claim, living)));
    }
    for (address, owner) in orphans::addresses(&node.state)? {
        found.push(claimed(Orphan::Address(address, owner), evidence));
    }
    for derived in orphans::derived(&node.state)? {
        found.push(match derived {
            Orphan::Store(_) => Finding::orphan(Verdict::Stale, derived, "it is of another boot".into()),
            Orphan::Note(..) => Finding::orphan(Verdict::Stale, derived, NO_JOURNAL.into()),
            derived => claimed(derived, evidence),
        });
    }
    let unreadable = orphans::unreadable(&node.state)?;
    found.extend(unreadable.iter().map(|path| unreadable_file(path)));
    found.sort_by_cached_key(|finding| (finding.what, finding.key()));
    Ok(found)
}

/// What a journal says of its attachment; `None` if all is well, or the journal has just gone.
pub(crate) fn journal(named: Named, living: &Living) -> Option<Finding> {
    let of = |verdict, evidence: String, network: &str| {
        let object = format!("{} of network {network}", named.plugin);
        Finding::new(verdict, What::Journal, Some(&named.attachment), object, evidence)
    };
    let record = match Record::look(&named.path) {
        Ok(record) => record?,
        Err(error) => {
            let evidence =
                format!("it cannot be understood ({error}); a DEL of the attachment sets it aside");
            return Some(of(Verdict::Kept, evidence, "?"));
        }
    };
    let (verdict, evidence) = judge(&record, living)?;
    let finding = of(verdict, evidence, &record.head.network);
    Some(finding.with(Thing::Journal { inode: record.inode, named }))
}

/// What is to become of an attachment; `None` if all is well.
fn judge(record: &Record, living: &Living) -> Option<(Verdict, String)> {
    let (verdict, evidence) = if journal::boot_id().is_ok_and(|now| now != record.head.boot_id) {
        (Verdict::Stale, "it was written before the last boot".to_owned())
    } else {
        // Without a known namespace nobody can say that it is dead.
        let life = record.head.netns.map_or(Life::Named, |id| living.life(&record.head.netns_path, id));
        judge_life(life, record.complete)?
    };
    if record.at_work {
        return Some((Verdict::InProgress, "a call is at work on it".to_owned()));
    }
    Some((verdict, evidence))
}

fn judge_life(life: Life, complete: bool) -> Option<(Verdict, String)> {
    let killed = "the ADD that wrote it has died before it was completed";
    match (life, complete) {
        (Life::Named, true) => None,
        (Life::Dead(why), true) => Some((Verdict::Stale, why)),
        (Life::Named | Life::Dead(_), false) => Some((Verdict::Stale, killed.to_owned())),
        (Life::Held(how), true) => Some((Verdict::Kept, how)),
        // A DEL would not find what it must take back.
        (Life::Held(how), false) => Some((Verdict::Kept, format!("{killed}; {how}"))),
    }
}

/// A claim of a device without a journal.
pub(crate) fn device(claim: Claim, living: &Living) -> Finding {
    match claim.death(Some(living)) {
        Some(death) => {
            Finding::orphan(Verdict::Stale, Orphan::Device(claim), format!("{NO_JOURNAL}, and {death}"))
        }
        None => {
            let evidence = format!("{NO_JOURNAL}, but its namespace lives");
            Finding::orphan(Verdict::Kept, Orphan::Device(claim), evidence)
        }
    }
}

/// An address or an entry without a journal: stale, unless something says that its owner may live.
pub(crate) fn claimed(orphan: Orphan, evidence: &Evidence<'_>) -> Finding {
    let witness = orphan.owner().and_then(|owner| evidence.witnesses.of(owner, Some(&evidence.living)));
    match witness {
        Some(why) => Finding::orphan(Verdict::Kept, orphan, format!("{NO_JOURNAL}, but {why}")),
        None => Finding::orphan(Verdict::Stale, orphan, NO_JOURNAL.into()),
    }
}

fn unreadable_file(path: &Path) -> Finding {
    let evidence = "it could not be understood; what its attachment has is kept because of it: \
                    delete it when nothing of the attachment is left";
    Finding::new(Verdict::Kept, What::File, None, path.display().to_string(), evidence.into())
}
