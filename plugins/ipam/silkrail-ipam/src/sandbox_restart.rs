//! A pod keeps its addresses when its sandbox is restarted.
//!
//! The new sandbox has another container ID but the same pod UID. A link for each UID and interface leads to the latest
//! attachment. If the namespace of that attachment no longer exists, its claims are reassigned to the new attachment,
//! provided that the ADD could allocate these addresses now.

use std::path::Path;

use cni::AddRequest;
use ipam::{LocalStore, StoreError};
use journal::Journal;
use plugin_runtime::{Error, Node, attachment};
use tracing::info;

use crate::{
    change::{Change, ClaimedAddress},
    conf::NAME,
    pod_interface_note::PodInterfaceNote,
};

/// Reassigns the claims of the pod's former sandbox for which `can_keep` returns `true`, and returns them; none if that
/// sandbox may still exist.
///
/// # Errors
/// If a claim cannot be reassigned.
pub(crate) fn take_over_addresses(
    journal: &mut Journal<Change>,
    node: &Node,
    store: &LocalStore,
    request: &AddRequest<'_>,
    note: Option<&PodInterfaceNote>,
    can_keep: impl Fn(&ClaimedAddress) -> bool,
) -> Result<Vec<ClaimedAddress>, Error> {
    let Some(former) = note.and_then(|note| note.former(node)) else { return Ok(Vec::new()) };
    let Some(old) = attachment::find::<Change>(node, NAME, &former)? else { return Ok(Vec::new()) };
    let head = old.head();
    if head.pod().liveness(Path::new("/")).reason_dead().is_none()
        || head.network != request.common.conf.name
        || old.is_from_earlier_boot()?
    {
        return Ok(Vec::new());
    }
    let (mut claims, mut left) = (Vec::new(), false);
    for change in old.changes() {
        let Change::Claim(claim) = change else { continue };
        if !can_keep(claim) {
            left = true;
            continue;
        }
        let ours = ClaimedAddress { owner: request.attachment.clone(), ..claim.clone() };
        let reassigned = journal.record_and_apply(Change::Claim(ours.clone()), |_| {
            match store.reassign(claim.address, &former, &request.attachment) {
                Ok(()) => Ok(true),
                // It was recorded but never claimed, or has another owner.
                Err(StoreError::NotOwner { .. }) => Ok(false),
                Err(error) => Err(Error::from(error)),
            }
        })?;
        if reassigned {
            claims.push(ours);
        }
    }
    info!(former = %former, attachment = %request.attachment, "reassigned the addresses of the pod's former sandbox");
    // A late DEL of the former sandbox does not release reassigned addresses. If others are left, it needs the journal.
    if !left {
        let _ = old.remove();
    }
    Ok(claims)
}
