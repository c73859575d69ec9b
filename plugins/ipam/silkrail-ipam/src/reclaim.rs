//! Releases the addresses of pods that no longer exist. An ADD that finds its pools full does this, because a runtime may
//! forget a sandbox without calling DEL.

use std::{net::IpAddr, path::Path, time::Duration};

use identifiers::Attachment;
use ipam::{AddressClaim, ClaimOwner, LocalStore, Pool};
use journal::{Journal, JournalStatus};
use netns::LiveNetns;
use plugin_runtime::{Error, Node};
use state::orphans::{Orphan, recorded_pod};
use tracing::{info, warn};

use crate::{change::Change, conf::NAME, error::IpamError};

/// The timeout for the journal of a stale attachment. A call that holds it longer is already reverting it.
const DEAD_JOURNAL_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Releases the addresses of these pools whose owner's network namespace certainly no longer exists. Returns the number
/// of released addresses. Nothing is released if the existing namespaces cannot be listed.
///
/// # Errors
/// If the claims cannot be read.
pub(crate) fn from_pools(node: &Node, store: &LocalStore, pools: &[&Pool]) -> Result<usize, Error> {
    reclaim_from_dead_pods(node, store, |address| pools.iter().any(|pool| pool.ranges.contains(address)))
}

/// As [`from_pools`], for one address.
///
/// # Errors
/// If the claims cannot be read.
pub(crate) fn address(node: &Node, store: &LocalStore, wanted: IpAddr) -> Result<usize, Error> {
    reclaim_from_dead_pods(node, store, |address| address == wanted)
}

fn reclaim_from_dead_pods(
    node: &Node,
    store: &LocalStore,
    wanted: impl Fn(IpAddr) -> bool,
) -> Result<usize, Error> {
    let mut claims = store.claims()?;
    claims.retain(|claim| wanted(claim.address));
    if claims.is_empty() {
        return Ok(0);
    }
    let living = match LiveNetns::scan(Path::new("/")) {
        Ok(living) => living,
        Err(why) => {
            info!(%why, "cannot list the network namespaces; stale addresses of a full pool are not reclaimed");
            return Ok(0);
        }
    };
    let mut freed = 0;
    for AddressClaim { address, owner } in claims {
        let ClaimOwner::Attachment(owner) = owner else { continue };
        match revert_dead(node, address, &owner, &living) {
            Ok(Some(why)) => {
                info!(%address, %owner, %why, "reclaimed an address of a pod that is gone without a DEL");
                freed += 1;
            }
            Ok(None) => {}
            // Continue with the other addresses.
            Err(error) => {
                warn!(%address, %owner, %error, "the address of a pod that is gone could not be reclaimed")
            }
        }
    }
    Ok(freed)
}

/// Releases an address if its owner's namespace no longer exists. Returns the proof of that.
fn revert_dead(
    node: &Node,
    address: IpAddr,
    owner: &Attachment,
    living: &LiveNetns,
) -> Result<Option<String>, Error> {
    let path = node.state.journal(owner, NAME);
    let Some(record) = JournalStatus::read_status(&path).unwrap_or_default() else {
        return orphan(node, address, owner, living);
    };
    let dead = record.head.pod().liveness_among(Ok(living)).reason_dead();
    let Some(why) = dead.filter(|_| !record.at_work) else { return Ok(None) };
    let deadline = node.budget.until("another call about the attachment", DEAD_JOURNAL_LOCK_TIMEOUT);
    match Journal::<Change>::open(&path, deadline.at())? {
        // A later attachment of the same name, about which nothing is known.
        Some(journal) if journal.inode()? != record.inode => return Ok(None),
        Some(journal) => {
            let left = journal.revert(node).err().unwrap_or_default();
            if let Some(left) = left.first() {
                return Err(IpamError::Left(left.to_string()).into());
            }
        }
        // Another call has reverted it.
        None => {}
    }
    Ok(Some(why))
}

/// Releases an address whose owner has no journal, if the pod map proves that the owner is gone.
fn orphan(
    node: &Node,
    address: IpAddr,
    owner: &Attachment,
    living: &LiveNetns,
) -> Result<Option<String>, Error> {
    let Ok(Some(entry)) = node.state.podmap().read(owner) else { return Ok(None) };
    let dead = recorded_pod(&entry).liveness_among(Ok(living)).reason_dead();
    let Some(why) = dead else { return Ok(None) };
    let gone = Orphan::Address(address, owner.clone()).release(&node.state, node.claims_lock().at())?;
    Ok(gone.then_some(why))
}
