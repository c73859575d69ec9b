//! Who finds no address looks whether the dead hold any: runtimes forget sandboxes whose DEL was never made.

use std::{net::IpAddr, path::Path, time::Duration};

use identifiers::Attachment;
use ipam::{AddressClaim, ClaimOwner, LocalStore, Pool};
use journal::{Journal, JournalStatus};
use netns::{LiveNetns, NetNsId};
use plugin_runtime::{Error, Node};
use state::orphans::Orphan;
use tracing::{info, warn};

use crate::{NAME, change::Change, error::IpamError};

/// How long another call may hold the journal of a dead attachment. Who does is taking it back already.
const DEAD_JOURNAL_LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Gives back what attachments whose namespace is provably dead hold of these pools, and says how many addresses that
/// were. What may live is left alone, and so is everything where nobody can judge.
///
/// # Errors
/// If the claims cannot be read.
pub(crate) fn from_pools(node: &Node, store: &LocalStore, pools: &[&Pool]) -> Result<usize, Error> {
    reclaim_from_dead_pods(node, store, |address| pools.iter().any(|pool| pool.ranges.contains(address)))
}

/// As [`from_pools`], of one address.
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
            info!(%why, "a full pool is not searched for what the dead hold");
            return Ok(0);
        }
    };
    let mut freed = 0;
    for AddressClaim { address, owner } in claims {
        let ClaimOwner::Attachment(owner) = owner else { continue };
        match revert_dead(node, address, &owner, &living) {
            Ok(Some(why)) => {
                info!(%address, %owner, %why, "took back an address of a pod that is gone without a DEL");
                freed += 1;
            }
            Ok(None) => {}
            // One that cannot be had is no reason to leave the others.
            Err(error) => warn!(%address, %owner, %error, "an address of a dead pod could not be taken back"),
        }
    }
    Ok(freed)
}

/// Takes an address back if its owner is dead, and says how that shows.
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
    let dead = |id: NetNsId| living.reason_dead(&record.head.netns_path, id);
    let Some(why) = record.head.netns.and_then(dead).filter(|_| !record.at_work) else { return Ok(None) };
    let deadline = node.budget.until("another call about the attachment", DEAD_JOURNAL_LOCK_TIMEOUT);
    match Journal::<Change>::open(&path, deadline.at())? {
        // Whoever was judged, this is the next attachment of its name.
        Some(journal) if journal.inode()? != record.inode => return Ok(None),
        Some(journal) => {
            let left = journal.revert(node).err().unwrap_or_default();
            if let Some(left) = left.first() {
                return Err(IpamError::Left(left.to_string()).into());
            }
        }
        // Another call was faster.
        None => {}
    }
    Ok(Some(why))
}

/// Without a journal only the pod map can prove that the owner is dead.
fn orphan(
    node: &Node,
    address: IpAddr,
    owner: &Attachment,
    living: &LiveNetns,
) -> Result<Option<String>, Error> {
    let Ok(Some(entry)) = node.state.podmap().read(owner) else { return Ok(None) };
    let container = &entry.container;
    let id =
        NetNsId { cookie: container.netns_cookie, ..NetNsId::new(container.netns_dev, container.netns_ino) };
    let Some(why) = living.reason_dead(&container.netns_path, id) else { return Ok(None) };
    let gone = Orphan::Address(address, owner.clone()).release(&node.state, node.claims_lock().at())?;
    Ok(gone.then_some(why))
}
