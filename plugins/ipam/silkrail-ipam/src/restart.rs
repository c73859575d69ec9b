//! A pod whose sandbox was restarted keeps its addresses.
//!
//! The new sandbox has another container ID but the pod's UID. A note for each (UID, interface) says which
//! attachment it last was; if that one's namespace is gone, its claims become the new one's.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use addr::Attachment;
use cni::Add;
use ipam::{LocalStore, StoreError};
use journal::{Head, Journal};
use netns::NetNs;
use plugin::{Error, Node, attachment};
use tracing::info;

use crate::{
    NAME,
    change::{Change, Claim},
};

/// The claims of the pod's former sandbox, taken over; `None` if it has none or still lives.
///
/// # Errors
/// If a claim cannot be taken over.
pub(crate) fn take_over(
    journal: &mut Journal<Change>,
    node: &Node,
    store: &LocalStore,
    request: &Add<'_>,
) -> Result<Option<Vec<Claim>>, Error> {
    let uid = request.common.args.get("K8S_POD_UID");
    let Some(former) = former(node, &request.attachment, uid) else { return Ok(None) };
    let Some(old) = attachment::find::<Change>(node, NAME, &former)? else { return Ok(None) };
    let head = old.head();
    if lives(head) || head.network != request.common.conf.name || old.is_from_another_boot() {
        return Ok(None);
    }
    let mut claims = Vec::new();
    for Change::Claim(claim) in old.changes() {
        let ours = Claim { owner: request.attachment.clone(), ..claim.clone() };
        let reassigned = journal.make(Change::Claim(ours.clone()), |_| {
            match store.reassign(claim.address, &former, &request.attachment) {
                Ok(()) => Ok(true),
                // It was noted and never claimed, or is somebody else's.
                Err(StoreError::NotOwner { .. }) => Ok(false),
                Err(error) => Err(Error::from(error)),
            }
        })?;
        if reassigned {
            claims.push(ours);
        }
    }
    info!(former = %former, attachment = %request.attachment, "the pod's new sandbox takes its addresses over");
    // Whatever stays in the old journal is the new owner's, and a late DEL leaves it alone.
    let _ = old.forget();
    Ok((!claims.is_empty()).then_some(claims))
}

/// Whether the former sandbox may be there: only a namespace that is known to be gone says that it is not.
fn lives(head: &Head) -> bool {
    match (NetNs::open(&head.netns_path), head.netns) {
        (Ok(netns), Some(id)) => netns.id() == id,
        (Err(netns::Error::Missing { .. } | netns::Error::NotANamespace { .. }), Some(_)) => false,
        _ => true,
    }
}

/// Notes which attachment a pod's interface is.
pub(crate) fn remember(node: &Node, attachment: &Attachment, uid: Option<&str>) {
    let Some(path) = note(node, attachment, uid) else { return };
    // Without the note a restarted sandbox gets a new address, which is no reason to fail now.
    let _ = write(&path, attachment);
}

/// Forgets which attachment a pod's interface was, unless it is another one by now.
pub(crate) fn forget(node: &Node, attachment: &Attachment, uid: Option<&str>) {
    let Some(path) = note(node, attachment, uid) else { return };
    let _ = fs::remove_file(temporary(&path));
    if read(&path).as_ref() == Some(attachment) {
        let _ = fs::remove_file(path);
    }
}

fn former(node: &Node, attachment: &Attachment, uid: Option<&str>) -> Option<Attachment> {
    read(&note(node, attachment, uid)?).filter(|former| former != attachment)
}

/// The note's path; `None` if the runtime gave no UID, or one that is no file name.
fn note(node: &Node, attachment: &Attachment, uid: Option<&str>) -> Option<PathBuf> {
    let uid =
        uid.filter(|uid| uid.len() <= 64 && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))?;
    Some(node.state.root().join("ipam/pods").join(format!("{uid}@{}", attachment.ifname)))
}

/// A note is a symbolic link, as a claim is: one system call makes it, with its content.
fn read(path: &Path) -> Option<Attachment> {
    fs::read_link(path).ok()?.to_str()?.parse().ok()
}

/// One sandbox of a pod is made at a time, so one name is enough, and who is killed leaves nothing unknown.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}"))
}

fn write(path: &Path, attachment: &Attachment) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        statefile::make_dir(dir, 0o700).map_err(io::Error::other)?;
    }
    let temporary = temporary(path);
    let _ = fs::remove_file(&temporary);
    symlink(attachment.to_string(), &temporary)?;
    fs::rename(&temporary, path)
}
