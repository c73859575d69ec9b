//! The masters that no attachment uses, for `silkrail gc`, which has no list of valid attachments.

use identifiers::LinkName;
use plugin_runtime::{Error, Node, UnusedMaster};
use state::journals;

use crate::{
    master_use::{end_if_unused, link_to_end},
    record::{self, MasterRecord, MasterRecords},
    usage,
};

/// Returns the masters whose users have no journal, and those without users. Nothing is changed.
///
/// The records are locked meanwhile: a DEL removes the user and then its journal.
///
/// # Errors
/// If the records cannot be locked or read.
pub(crate) fn list(node: &Node) -> Result<Vec<UnusedMaster>, Error> {
    let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(Vec::new()) };
    let mut unused = Vec::new();
    for name in records.names()? {
        let Some(record) = record::find_of_any_boot(node, &name)?.filter(|record| record.name == name) else {
            continue;
        };
        if !has_journaled_user(node, &record)? {
            unused.extend(describe(node, record)?);
        }
    }
    Ok(unused)
}

/// Ends a master, unless an attachment uses it by now, or something else does.
///
/// # Errors
/// If the kernel refuses a change; the record is then as before.
pub(crate) fn end(node: &Node, name: &LinkName) -> Result<(), Error> {
    let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(()) };
    let Some(mut record) = records.find(name.as_str())?.filter(|record| record.name == *name) else {
        return Ok(());
    };
    if has_journaled_user(node, &record)? {
        return Ok(());
    }
    record.users.clear();
    end_if_unused(node, &records, record)
}

fn has_journaled_user(node: &Node, record: &MasterRecord) -> Result<bool, Error> {
    for user in &record.users {
        if journals::has_journal(&node.state, user)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Describes an unused master; `None` if its link is in another namespace than this thread.
fn describe(node: &Node, record: MasterRecord) -> Result<Option<UnusedMaster>, Error> {
    let (evidence, in_use) = if record.is_of_former_boot()? {
        ("its record was written before the last boot", None)
    } else if record.is_current()? {
        let unused =
            if record.users.is_empty() { "no pod uses it" } else { "the pods that use it have no journal" };
        // The reason why it cannot be determined keeps it, too.
        (unused, user(node, &record).unwrap_or_else(|error| Some(error.to_string())))
    } else {
        return Ok(None);
    };
    let MasterRecord { name, users, .. } = record;
    Ok(Some(UnusedMaster { name, users, evidence: evidence.into(), in_use }))
}

fn user(node: &Node, record: &MasterRecord) -> Result<Option<String>, Error> {
    link_to_end(node, record)?.map_or(Ok(None), |link| usage::reason_to_keep(node, &link))
}
