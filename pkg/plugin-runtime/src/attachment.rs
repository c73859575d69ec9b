//! Begins journals of attachments, and reverts attachments.

use std::{path::Path, time::Duration};

use cni::AddRequest;
use identifiers::{Attachment, LinkName};
use journal::{Change, Journal, JournalHeader, StepTimes, boot_id};
use netns::NetNsId;
use state::journals::{self, JournalFile};
use tracing::{info, warn};

use crate::{Error, Node, PodNetns, error::left_behind, pod_netns};

/// How long a call waits for the lock of a journal, which another call for the same attachment holds.
const JOURNAL_LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// A change that a plugin makes: on a [`Node`], with [`crate::Error`] as its error.
pub trait NodeChange: Change<Node = Node, Error = Error> {}
impl<C: Change<Node = Node, Error = Error>> NodeChange for C {}

/// What the header of a new journal records.
#[derive(Debug)]
pub struct JournalSpec<'a> {
    /// The `type` of the plugin that writes it.
    pub plugin: &'static str,
    /// The container ID and interface name.
    pub attachment: &'a Attachment,
    /// The `name` of the network configuration.
    pub network: &'a str,
    /// The value of `CNI_NETNS`.
    pub netns_path: &'a Path,
    /// The namespace that `CNI_NETNS` names, if the plugin identifies it.
    pub netns: Option<NetNsId>,
}

impl<'a> JournalSpec<'a> {
    /// Returns the header data for an ADD of `plugin` into `pod`.
    pub fn of(plugin: &'static str, request: &'a AddRequest<'_>, pod: &PodNetns) -> Self {
        Self {
            plugin,
            attachment: &request.attachment,
            network: &request.common.conf.name,
            netns_path: &request.netns,
            netns: Some(pod.id()),
        }
    }

    /// As [`JournalSpec::of`], for a plugin that does not enter the namespace and works without it.
    pub fn without_pod(plugin: &'static str, request: &'a AddRequest<'_>) -> Self {
        Self {
            plugin,
            attachment: &request.attachment,
            network: &request.common.conf.name,
            netns_path: &request.netns,
            netns: pod_netns::id_of(&request.netns),
        }
    }
}

/// Begins the journal of a new attachment.
///
/// The changes of an earlier ADD of the same attachment are reverted first, if that ADD was killed, was made before the
/// last boot, or in another namespace that is certainly gone.
///
/// # Errors
/// [`journal::Error::Exists`] if the attachment exists: a second ADD without a DEL changes nothing.
pub fn begin<C: NodeChange>(node: &Node, beginning: &JournalSpec<'_>) -> Result<Journal<C>, Error> {
    let path = node.state.journal(beginning.attachment, beginning.plugin);
    let head = JournalHeader {
        version: JournalHeader::VERSION,
        plugin: beginning.plugin.into(),
        attachment: beginning.attachment.clone(),
        network: beginning.network.into(),
        netns_path: beginning.netns_path.into(),
        netns: beginning.netns,
        boot_id: boot_id()?.into(),
    };
    let mut has_dir = false;
    loop {
        match Journal::create(&path, head.clone()) {
            Ok(journal) => return Ok(journal),
            Err(journal::Error::File(error)) if error.is_not_found() && !has_dir => {
                node.state.make_dir("attachments")?;
                has_dir = true;
            }
            Err(journal::Error::File(statefile::Error::Exists { .. })) => {
                revert_former::<C>(node, &path, &head)?
            }
            Err(error) => return Err(error.into()),
        }
        // The former journal is gone: try again.
    }
}

fn revert_former<C: NodeChange>(node: &Node, path: &Path, new: &JournalHeader) -> Result<(), Error> {
    let Some(old) = open::<C>(node, path)? else { return Ok(()) };
    if old.is_complete() && is_alive(old.head(), new) {
        let head = Box::new(old.head().clone());
        return Err(journal::Error::Exists { path: path.to_owned(), head }.into());
    }
    info!(attachment = %new.attachment, "reverting the changes of an earlier ADD");
    revert_journal(node, old)
}

/// Whether an attachment of this boot has the namespace of the new one, or one that is not certainly gone.
fn is_alive(old: &JournalHeader, new: &JournalHeader) -> bool {
    let is_new = old.boot_id == new.boot_id
        && old.netns.zip(new.netns).map_or(old.netns == new.netns, |(old, new)| old.is(new));
    is_new || old.pod().liveness(Path::new("/")).reason_dead().is_none()
}

/// Returns the attachment of this plugin that has an interface of this name in a namespace, if a journal of this boot
/// records one.
///
/// # Errors
/// If a journal cannot be read.
pub fn find_holder(
    node: &Node,
    plugin: &str,
    ifname: &LinkName,
    netns: NetNsId,
) -> Result<Option<Attachment>, Error> {
    let journals = in_netns(node, plugin, netns)?.into_iter().map(|journal| journal.attachment);
    Ok(journals.into_iter().find(|attachment| attachment.ifname == *ifname))
}

/// Returns the journals that this plugin wrote since the last boot for attachments in a namespace.
///
/// # Errors
/// If a journal cannot be read.
pub fn in_netns(node: &Node, plugin: &str, netns: NetNsId) -> Result<Vec<JournalFile>, Error> {
    let mut found = Vec::new();
    let ours = |named: &JournalFile| named.plugin == plugin && !named.is_quarantined;
    for named in journals::list(&node.state)?.into_iter().filter(ours) {
        let Some(head) = JournalHeader::read(&named.path)? else { continue };
        if head.boot_id == boot_id()? && head.netns.is_some_and(|its| its.is(netns)) {
            found.push(named);
        }
    }
    Ok(found)
}

/// Reverts an attachment by its journal. Returns whether the journal was complete: an incomplete one may lack changes,
/// which the caller must look for on the node.
///
/// # Errors
/// The changes that could not be reverted.
pub fn revert<C: NodeChange>(node: &Node, plugin: &str, attachment: &Attachment) -> Result<bool, Error> {
    let Some(journal) = open::<C>(node, &node.state.journal(attachment, plugin))? else { return Ok(false) };
    let is_complete = journal.is_complete();
    revert_journal(node, journal)?;
    Ok(is_complete)
}

/// Reverts an attachment if its journal still has this inode. The caller found that journal to be stale, which does not
/// apply to a later journal of the same attachment.
///
/// # Errors
/// The changes that could not be reverted.
pub fn revert_if_inode<C: NodeChange>(
    node: &Node,
    plugin: &str,
    attachment: &Attachment,
    inode: u64,
) -> Result<(), Error> {
    match open::<C>(node, &node.state.journal(attachment, plugin))? {
        Some(journal) if journal.inode()? == inode => revert_journal(node, journal),
        _ => Ok(()),
    }
}

/// Opens the journal of an attachment, if there is one.
///
/// # Errors
/// If another call holds its lock for too long, or it cannot be read.
pub fn find<C: NodeChange>(
    node: &Node,
    plugin: &str,
    attachment: &Attachment,
) -> Result<Option<Journal<C>>, Error> {
    open(node, &node.state.journal(attachment, plugin))
}

/// Opens the journal of an attachment, as [`find`] does, if its ADD was completed: that of a killed ADD is no attachment.
///
/// # Errors
/// As [`find`].
pub fn find_complete<C: NodeChange>(
    node: &Node,
    plugin: &str,
    attachment: &Attachment,
) -> Result<Option<Journal<C>>, Error> {
    Ok(find(node, plugin, attachment)?.filter(Journal::is_complete))
}

/// Runs an ADD's changes. If one fails, all of them are reverted.
///
/// # Errors
/// The failure, with the changes that could not be reverted in its details.
pub fn run_or_revert<C: NodeChange, T>(
    journal: Journal<C>,
    node: &Node,
    body: impl FnOnce(&mut Journal<C>) -> Result<T, Error>,
) -> Result<T, cni::Error> {
    let body = |journal: &mut Journal<C>| {
        let done = body(journal);
        node.add_steps(journal.steps());
        done
    };
    journal.run_or_revert(node, body, || node.budget.begin_revert()).map_err(crate::error::failed)
}

/// Returns the attachments of a network for which this plugin has a journal.
///
/// # Errors
/// If they cannot be listed or read. Callers must not treat that as none, and release what is in use.
pub fn of_network(node: &Node, plugin: &str, network: &str) -> Result<Vec<Attachment>, Error> {
    let mut found = Vec::new();
    let ours = |journal: &JournalFile| journal.plugin == plugin && !journal.is_quarantined;
    for JournalFile { path, attachment, .. } in journals::list(&node.state)?.into_iter().filter(ours) {
        // The network of a journal never changes, so those of other networks are neither locked nor quarantined.
        if JournalHeader::read(&path)?.is_some_and(|head| head.network == network) {
            found.push(attachment);
        }
    }
    Ok(found)
}

/// Opens a journal. A malformed one is quarantined and counts as none: DEL must not fail for ever because of it.
fn open<C: NodeChange>(node: &Node, path: &Path) -> Result<Option<Journal<C>>, Error> {
    let deadline = node.budget.until("another call about the attachment", JOURNAL_LOCK_TIMEOUT);
    match Journal::open(path, deadline.at()) {
        Err(error @ journal::Error::Quarantined { .. }) => {
            warn!(%error, "cannot read a journal");
            Ok(None)
        }
        opened => Ok(opened?),
    }
}

/// Reverts changes that another program made and no journal records, the last first. A failure does not keep the others
/// from being reverted.
///
/// # Errors
/// The changes that could not be reverted.
pub fn revert_all<C: NodeChange>(node: &Node, changes: &[C]) -> Result<(), Error> {
    let reverted = changes.iter().rev().map(|change| (change, change.revert(node)));
    let left: Vec<_> = reverted
        .filter_map(|(change, done)| done.err().map(|why| (change.to_string(), why.to_string())))
        .map(|(change, why)| journal::RevertFailure { change, why })
        .collect();
    if left.is_empty() { Ok(()) } else { Err(left_behind(&left)) }
}

fn revert_journal<C: NodeChange>(node: &Node, journal: Journal<C>) -> Result<(), Error> {
    node.set_add_was_interrupted(!journal.is_complete());
    let mut steps = StepTimes::default();
    let reverted = journal.revert_timed(node, &mut steps);
    node.add_steps(&steps);
    reverted.map_err(|left| left_behind(&left))
}

#[cfg(test)]
mod tests;
