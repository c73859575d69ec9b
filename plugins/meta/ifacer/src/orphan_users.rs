//! GC of users of masters whose journal was lost, and of masters that were kept after their last user.

use std::path::Path;

use identifiers::Attachment;
use netns::LiveNetns;
use plugin_runtime::{Error, Node};
use state::{journals, orphans::LivenessEvidence};

use crate::{
    master_use::end_if_unused,
    record::{MasterRecord, MasterRecords},
};

/// Removes the users that have no journal, are not valid, and for which there is no evidence that they are alive; then ends
/// the masters without users. A failure does not keep the others from being ended.
///
/// # Errors
/// The masters that could not be ended.
pub(crate) fn release(node: &Node, valid: &[Attachment]) -> Result<(), Error> {
    let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(()) };
    let mut failures = Vec::new();
    for name in records.names()? {
        let Some(record) = records.find(name.as_str())?.filter(|record| record.master.name == name) else {
            continue;
        };
        if let Err(error) = release_one(node, &records, record, valid) {
            failures.push(format!("master {name}: {error}"));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Left(failures.join("; "))) }
}

/// Removes an attachment from the users of every master. Its journal was lost, or it never had one.
///
/// # Errors
/// The first master that could not be ended.
pub(crate) fn release_attachment(node: &Node, attachment: &Attachment) -> Result<(), Error> {
    let Some(records) = MasterRecords::lock_existing(node)? else { return Ok(()) };
    for name in records.names()?.iter().rev() {
        if let Some(mut record) =
            records.find(name.as_str())?.filter(|record| record.users.contains(attachment))
        {
            record.users.retain(|user| user != attachment);
            end_if_unused(node, &records, record)?;
        }
    }
    Ok(())
}

fn release_one(
    node: &Node,
    records: &MasterRecords,
    mut record: MasterRecord,
    valid: &[Attachment],
) -> Result<(), Error> {
    let mut users = Vec::new();
    for user in std::mem::take(&mut record.users) {
        if valid.contains(&user) || journals::has_journal(&node.state, &user)? || is_alive(node, &user)? {
            users.push(user);
        }
    }
    record.users = users;
    end_if_unused(node, records, record)
}

fn is_alive(node: &Node, user: &Attachment) -> Result<bool, Error> {
    let living = LiveNetns::scan(Path::new("/")).ok();
    Ok(LivenessEvidence::look(&node.state)?.of(user, living.as_ref()).is_some())
}
