//! Reverts the attachments that a runtime does not list as valid.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use identifiers::Attachment;
use journal::{JournalReadError, JournalStatus};
use netns::{LiveNetns, NetnsLiveness, NotOnNode};
use tracing::info;

use crate::{
    Error, Node,
    attachment::{NodeChange, of_network, revert, revert_if_inode},
};

/// Reverts every attachment of a network that is not listed as valid, if its pod is gone or its ADD was killed. A failure does not keep
/// the others from being reverted.
///
/// A runtime lists the attachments that it made itself. CRI-O collects every network of its directory at its start, also those that
/// only Multus attaches pods to: its list does not contain these. No process in a namespace is no evidence either: a pod has none before
/// its first container starts, and none between two starts of a container, as CRI-O runs no infra container by default
/// (`drop_infra_ctr`).
///
/// # Errors
/// The attachments that could not be reverted.
pub(crate) fn gc<C: NodeChange>(
    node: &Node,
    plugin: &str,
    network: &str,
    valid: &[Attachment],
) -> Result<(), Error> {
    let mut failures = Vec::new();
    let mut present = Vec::new();
    for attachment in of_network(node, plugin, network)?.into_iter().filter(|it| !valid.contains(it)) {
        match JournalStatus::read_status(&node.state.journal(&attachment, plugin)) {
            Ok(status) => present.extend(status.map(|status| (attachment, Some(status)))),
            // It is quarantined when it is opened.
            Err(JournalReadError::Content(_)) => present.push((attachment, None)),
            Err(error @ JournalReadError::File(_)) => failures.push(format!("{attachment}: {error}")),
        }
    }
    if !present.is_empty() {
        // After the journals: the processes of an ADD that ends in between would not be seen.
        let living = LiveNetns::scan(Path::new("/"));
        let judged: Vec<_> = present.into_iter().filter_map(|it| stale(it, &living)).collect();
        failures.extend(revert_all::<C>(node, plugin, judged));
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::Left(failures.join("; "))) }
}

/// Reverts attachments, and returns those that could not be reverted, with the reason.
fn revert_all<C: NodeChange>(
    node: &Node,
    plugin: &str,
    mut present: Vec<(Attachment, Option<u64>)>,
) -> Vec<String> {
    let mut failures = Vec::new();
    // Some may use up the budget, so each call begins at another one.
    let first =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis() as usize);
    let count = present.len().max(1);
    present.rotate_left(first % count);
    for (done, (attachment, inode)) in present.iter().enumerate() {
        // One share is reserved for the steps after this: orphaned claims, and the IPAM plugin.
        let _share = node.budget.share(present.len() - done + 1);
        if let Err(error) = gc_one::<C>(node, plugin, attachment, *inode) {
            failures.push(format!("{attachment}: {error}"));
        }
    }
    failures
}

/// Returns an attachment with the inode of the journal that was judged; `None` if it belongs to a running pod, or may do so. There is
/// no inode of a journal that cannot be parsed.
fn stale(
    (attachment, status): (Attachment, Option<JournalStatus>),
    living: &Result<LiveNetns, NotOnNode>,
) -> Option<(Attachment, Option<u64>)> {
    let Some(status) = status else { return Some((attachment, None)) };
    if let Some(reason) = reason_to_keep(&status, living) {
        info!(%attachment, %reason, "keeping an attachment that the runtime does not list as valid");
        return None;
    }
    Some((attachment, Some(status.inode)))
}

fn reason_to_keep(status: &JournalStatus, living: &Result<LiveNetns, NotOnNode>) -> Option<String> {
    if status.at_work {
        return Some("another call works on it".into());
    }
    let head = &status.head;
    // It had no namespace at its ADD.
    if !status.complete || (head.netns.is_none() && !head.netns_path.exists()) {
        return None;
    }
    match head.pod().liveness_among(living.as_ref()) {
        NetnsLiveness::Dead(_) => None,
        NetnsLiveness::Named => Some(format!("{} exists", head.netns_path.display())),
        NetnsLiveness::Held(why) => Some(why),
    }
}

/// Reverts an attachment, unless its journal is another one than that which was judged.
fn gc_one<C: NodeChange>(
    node: &Node,
    plugin: &str,
    attachment: &Attachment,
    judged: Option<u64>,
) -> Result<(), Error> {
    info!(%attachment, "reverting an attachment that is not valid any more");
    match judged {
        Some(inode) => revert_if_inode::<C>(node, plugin, attachment, inode),
        None => revert::<C>(node, plugin, attachment).map(drop),
    }
}
