//! A pod whose sandbox was restarted keeps its addresses.
//!
//! The new sandbox has another container ID but the pod's UID. A note for each (UID, interface) says which
//! attachment it last was; if that one's namespace is gone, its claims become the new one's, as far as an ADD could get
//! these addresses now.

use cni::AddRequest;
use ipam::{LocalStore, StoreError};
use journal::{Journal, JournalHeader};
use netns::NetNs;
use plugin_runtime::{Error, Node, attachment};
use tracing::info;

use crate::{
    NAME,
    change::{Change, ClaimedAddress},
    pod_interface_note::PodInterfaceNote,
};

/// The claims of the pod's former sandbox that `may` be taken over; none if it still lives.
///
/// # Errors
/// If a claim cannot be taken over.
pub(crate) fn take_over_addresses(
    journal: &mut Journal<Change>,
    node: &Node,
    store: &LocalStore,
    request: &AddRequest<'_>,
    note: Option<&PodInterfaceNote>,
    may: impl Fn(&ClaimedAddress) -> bool,
) -> Result<Vec<ClaimedAddress>, Error> {
    let Some(former) = note.and_then(|note| note.former(node)) else { return Ok(Vec::new()) };
    let Some(old) = attachment::find::<Change>(node, NAME, &former)? else { return Ok(Vec::new()) };
    let head = old.head();
    if may_be_alive(head) || head.network != request.common.conf.name || old.is_from_earlier_boot()? {
        return Ok(Vec::new());
    }
    let (mut claims, mut left) = (Vec::new(), false);
    for change in old.changes() {
        let Change::Claim(claim) = change else { continue };
        if !may(claim) {
            left = true;
            continue;
        }
        let ours = ClaimedAddress { owner: request.attachment.clone(), ..claim.clone() };
        let reassigned = journal.record_and_apply(Change::Claim(ours.clone()), |_| {
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
    // What was taken over is the new owner's, and a late DEL leaves it alone; the rest is for that DEL.
    if !left {
        let _ = old.remove();
    }
    Ok(claims)
}

/// Whether the former sandbox may be there: only a namespace that is known to be gone says that it is not.
fn may_be_alive(head: &JournalHeader) -> bool {
    head.netns.is_none_or(|id| NetNs::is_still_at(&head.netns_path, id).unwrap_or(true))
}
