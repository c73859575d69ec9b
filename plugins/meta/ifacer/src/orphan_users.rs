//! GC of users of masters whose journal was lost, and of masters that were kept after their last user.

use identifiers::Attachment;
use plugin_runtime::{Error, Node};
use state::journals;

use crate::{
    master_use::end_if_unused,
    record::{MasterRecord, MasterRecords},
};

/// Removes the users that have no journal and are not valid, and ends the masters without users. If such a user is alive
/// nevertheless, its link on the master keeps that.
///
/// # Errors
/// The masters that could not be ended.
pub(crate) fn release(node: &Node, valid: &[Attachment]) -> Result<(), Error> {
    update(node, &|record| {
        let (before, mut kept) = (record.users.len(), Vec::new());
        for user in std::mem::take(&mut record.users) {
            if valid.contains(&user) || journals::has_journal(&node.state, &user)? {
                kept.push(user);
            }
        }
        let is_changed = kept.len() < before;
        record.users = kept;
        Ok(is_changed || record.users.is_empty())
    })
}

/// Removes an attachment from the users of every master. Its journal was lost, or it never had one.
///
/// # Errors
/// The masters that could not be ended.
pub(crate) fn release_attachment(node: &Node, attachment: &Attachment) -> Result<(), Error> {
    update(node, &|record| {
        let had_it = record.users.contains(attachment);
        record.users.retain(|user| user != attachment);
        Ok(had_it)
    })
}

/// Changes the users of each record; if `change` returns `true`, the record is written, or its master ended. A failure does
/// not keep the others from being changed.
fn update(node: &Node, change: &dyn Fn(&mut MasterRecord) -> Result<bool, Error>) -> Result<(), Error> {
    let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(()) };
    let names = records.names()?;
    let mut failures = Vec::new();
    // A bond can be ended only after the VLAN above it.
    for name in names.iter().chain(&names) {
        let Some(mut record) = records.find(name.as_str())?.filter(|record| record.name == *name) else {
            continue;
        };
        let updated = match change(&mut record) {
            Ok(true) => end_if_unused(node, &records, record),
            unchanged => unchanged.map(drop),
        };
        failures.extend(updated.err().map(|error| format!("master {name}: {error}")));
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Left(failures.join("; "))) }
}
